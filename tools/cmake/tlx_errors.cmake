# tlx_explain_table(TARGET): makes explain_table.inc from docs/errors.d when the target is built, and puts its folder on the include path.
# Rows: {"id", "layer", "meaning", "fix"}, sorted by id, then layer (two layers may raise the same id).
function(tlx_explain_table target)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(folder "${PROJECT_BINARY_DIR}/generated")
  if(NOT TARGET tlx_explain_table)
    file(MAKE_DIRECTORY "${folder}")
    file(GLOB entries CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/errors.d/*.md")
    add_custom_command(OUTPUT "${folder}/explain_table.inc"
      COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/gen_errors.py" --inc "${folder}/explain_table.inc"
      DEPENDS "${PROJECT_SOURCE_DIR}/tools/gen_errors.py" ${entries} VERBATIM)
    add_custom_target(tlx_explain_table DEPENDS "${folder}/explain_table.inc")
  endif()
  add_dependencies(${target} tlx_explain_table)
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()
