# The CUDA backend (-DTOKAMAK_CUDA=ON): finds the toolkit, then CUDA is a language of the project like C++.
# The toolkit is that of `scripts/setup.sh cuda`; -DTOKAMAK_CUDA_TOOLKIT=/usr/local/cuda names another one of release 13.
set(TOKAMAK_CUDA_TOOLKIT ${PROJECT_SOURCE_DIR}/build/cuda-toolkit/nvidia/cu13 CACHE PATH "Folder with bin/nvcc")
set(TOKAMAK_CUDA_ARCHITECTURES 90a CACHE STRING "GPUs to compile for: a list of 80, 86, 89, 90a, 100a, 120a")
if("90" IN_LIST TOKAMAK_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "TOKAMAK_CUDA_ARCHITECTURES: 90a, not 90, which lacks the kernels that such a GPU is taken to have")
endif()
if(NOT EXISTS ${TOKAMAK_CUDA_TOOLKIT}/bin/nvcc)
  message(FATAL_ERROR "no CUDA compiler at ${TOKAMAK_CUDA_TOOLKIT}/bin/nvcc: run `scripts/setup.sh cuda`, or name a "
                      "toolkit of release 13 with -DTOKAMAK_CUDA_TOOLKIT=FOLDER")
endif()

set(CMAKE_CUDA_COMPILER ${TOKAMAK_CUDA_TOOLKIT}/bin/nvcc)
set(CMAKE_CUDA_ARCHITECTURES ${TOKAMAK_CUDA_ARCHITECTURES})
list(TRANSFORM CMAKE_CUDA_ARCHITECTURES APPEND -real)  # machine code only: the driver never compiles at start
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # it looks for the driver at run time
if(EXISTS ${TOKAMAK_CUDA_TOOLKIT}/lib/libcudart_static.a)  # nvcc expects lib64, the wheels have lib
  set(CMAKE_CUDA_FLAGS_INIT -L${TOKAMAK_CUDA_TOOLKIT}/lib)
endif()
enable_language(CUDA)
foreach(kind STANDARD EXTENSION)  # CMake 3.25 does not know that nvcc has it
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
# Programs look into ../lib first, where scripts/bundle_cuda.sh puts the libraries that travel along.
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)

# Options of CUDA sources and of the C++ beside them. fmad=false: as for C++,
# a multiply and an add are fused only where the source says fmaf.
function(tokamak_cuda_options target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra;-Xcudafe=--display_error_number>"
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers -ffp-contract=off>)
  target_include_directories(${target} SYSTEM PRIVATE ${TOKAMAK_CUDA_TOOLKIT}/include)
endfunction()

# tokamak_cuda_library(NAME [DEPS lib...]): all .cpp and .cu files of the current folder as tokamak_NAME.
function(tokamak_cuda_library name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
  if(NOT sources)
    message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR} has no sources")
  endif()
  add_library(tokamak_${name} STATIC ${sources})
  target_include_directories(tokamak_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tokamak_${name} PUBLIC ${ARG_DEPS})
  tokamak_cuda_options(tokamak_${name})
endfunction()

add_custom_target(cuda_tests)  # all programs of tokamak_cuda_tests()

# tokamak_cuda_tests(NAME [DEPS lib...]): all *_test.cpp and *_test.cu files of the current folder as program NAME_test.
# Tests that need a GPU skip themselves where there is none.
function(tokamak_cuda_tests name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cu
       ${CMAKE_CURRENT_SOURCE_DIR}/*_helpers.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*_helpers.cu)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} GTest::gtest_main GTest::gmock)
  tokamak_cuda_options(${name}_test)
  add_dependencies(cuda_tests ${name}_test)
  gtest_discover_tests(${name}_test TEST_PREFIX "${name}/" DISCOVERY_TIMEOUT 60
                       WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT 600)
endfunction()
