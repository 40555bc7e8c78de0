# Builds a project that takes tlx in with add_subdirectory().
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
set(consumer "${scratch}/by_subdirectory")
file(REMOVE_RECURSE "${consumer}")
run(${CMAKE_COMMAND} -S "${source}/tests/install/subdirectory" -B "${consumer}" ${configure_options} "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
    "-Dtlx_source=${source}" -DCMAKE_BUILD_TYPE=Debug)
run(${CMAKE_COMMAND} --build "${consumer}" --target consumer)
file(GLOB_RECURSE program "${consumer}/consumer" "${consumer}/bin/consumer")
run("${program}")
expect("tlx ${version}")
