# Helpers shared by all folders: one static library per folder of src/, one test program per folder of tests/.

# Warnings and floating-point rules for every target. -ffp-contract=off: a multiply and an add are fused only
# where the source says fma, so that every instruction set and compiler rounds alike.
function(tokamak_options target)
  if(TOKAMAK_FUZZ)  # coverage for libFuzzer
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
                                           -ffp-contract=off)
  if(TOKAMAK_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TOKAMAK_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=undefined)
    target_link_options(${target} PRIVATE -fsanitize=${TOKAMAK_SANITIZE})
  endif()
endfunction()

# tokamak_library(NAME [DEPS lib...] [EXCLUDE regex]): all .cpp files of the current folder as tokamak_NAME.
function(tokamak_library name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${ARG_EXCLUDE})
  endif()
  if(NOT sources)  # headers only
    add_library(tokamak_${name} INTERFACE)
    target_include_directories(tokamak_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(tokamak_${name} INTERFACE ${ARG_DEPS})
    return()
  endif()
  add_library(tokamak_${name} STATIC ${sources})
  target_include_directories(tokamak_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tokamak_${name} PUBLIC ${ARG_DEPS})
  tokamak_options(tokamak_${name})
endfunction()

# tokamak_tests(NAME [DEPS lib...] [LABELS label...]): all *_test.cpp files of the current folder as program NAME_test,
# which is run from the root of the sources.
function(tokamak_tests name)
  cmake_parse_arguments(ARG "" "" "DEPS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*_helpers.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} GTest::gtest_main GTest::gmock)
  # Relative, so that compiler caches serve every clone; tests run in the folder of the sources.
  target_compile_definitions(${name}_test PRIVATE TOKAMAK_TEST_DATA="tests/data" TOKAMAK_GOLDEN="tests/golden")
  tokamak_options(${name}_test)
  # Tests are compiled far more often than they run. Under sanitizers the libraries carry all checks; UBSan over gtest's
  # macros triples the time of a file and finds nothing of ours.
  if(TOKAMAK_SANITIZE)
    target_compile_options(${name}_test PRIVATE -O0 -fno-sanitize=undefined)
  else()
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  set(labels)
  if(ARG_LABELS)  # an empty value would make TIMEOUT a label
    set(labels LABELS "${ARG_LABELS}")
  endif()
  gtest_discover_tests(${name}_test TEST_PREFIX "${name}/" DISCOVERY_TIMEOUT 60
                       WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT 600 ${labels})
endfunction()
