# fmt, tl::expected and GoogleTest when cross compiling: the build machine's headers and sources serve every processor,
# its libraries do not. Headers are linked into a folder of their own, because /usr/include has the build machine's C
# library beside them.
set(headers ${CMAKE_BINARY_DIR}/headers)
foreach(header fmt/format.h tl/expected.hpp)
  get_filename_component(folder ${header} DIRECTORY)
  find_path(TOKAMAK_${folder}_HEADERS ${header} PATHS /usr/include /usr/local/include NO_DEFAULT_PATH REQUIRED)
  file(MAKE_DIRECTORY ${headers})
  file(CREATE_LINK ${TOKAMAK_${folder}_HEADERS}/${folder} ${headers}/${folder} SYMBOLIC)
endforeach()

add_library(fmt::fmt INTERFACE IMPORTED)
target_include_directories(fmt::fmt SYSTEM INTERFACE ${headers})
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
add_library(tl::expected INTERFACE IMPORTED)
target_include_directories(tl::expected SYSTEM INTERFACE ${headers})

if(TOKAMAK_TESTS)
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  target_compile_options(gtest PRIVATE -Wno-restrict)  # g++ 12: a false alarm in std::string
endif()
