# Writes files as rows of C++ string literals, for an array of {name, version, bytes}:
#   cmake -DOUT=rows.inc -DFILES=a;b -P EmbedFiles.cmake
# The version is the beginning of the bytes' SHA-256.
set(rows "")
foreach(path IN LISTS FILES)
  file(READ "${path}" text)
  string(FIND "${text}" ")embed\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${path} holds the end mark of the literals, )embed\"")
  endif()
  file(SHA256 "${path}" version)
  string(SUBSTRING "${version}" 0 16 version)
  get_filename_component(name "${path}" NAME)
  string(APPEND rows "{\"${name}\", \"${version}\", R\"embed(${text})embed\"},\n")
endforeach()
file(WRITE "${OUT}" "${rows}")
