# cmake -DLIST=FILE -DOUT=FILE -P source_digest.cmake: a source that holds a digest of the files that LIST names, one a line.
file(STRINGS "${LIST}" files)
set(all "")
foreach(file ${files})
  file(SHA256 "${file}" one)
  string(APPEND all "${one}")
endforeach()
string(SHA256 digest "${all}")
file(WRITE "${OUT}" "#include \"jit/source_digest.hpp\"\n\nconst char* const tlx::jit::source_digest = \"${digest}\";\n")
