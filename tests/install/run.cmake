# run(COMMAND ...): runs it, fails with its output if it does, leaves the output in `output`.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    list(JOIN ARGV " " line)
    message(FATAL_ERROR "failed (${code}): ${line}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

# expect(TEXT): `output` holds TEXT.
function(expect text)
  string(FIND "${output}" "${text}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected \"${text}\" in:\n${output}")
  endif()
endfunction()

# refuse(TEXT): `output` does not hold TEXT.
function(refuse text)
  string(FIND "${output}" "${text}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "expected no \"${text}\" in:\n${output}")
  endif()
endfunction()
set(configure_options -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=${flags}" "-DCMAKE_EXE_LINKER_FLAGS=${link_flags}")
