#!/usr/bin/env bash
# tools/check_syntax.sh COMPILER: compiles (syntax only) what a build without LLVM leaves out: examples, library kernels, jit and tools.
# lib/codegen is left out: LLVM 22's own headers are what g++ builds are for. examples/shipped includes what tlxc writes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compiler="${1:?which compiler?}"
generated="$(mktemp -d)"
trap 'rm -rf "$generated"' EXIT
tools/gen_errors.py --inc "$generated/explain_table.inc"
mapfile -t sources < <(find examples tools lib/jit lib/kernels lib/c lib/dsl -name '*.cpp' -not -path 'examples/skeleton/*' -not -path 'examples/shipped/*' 2>/dev/null | sort)
((${#sources[@]} > 0)) || { echo "check_syntax: no sources"; exit 0; }
if printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "${TLX_JOBS:-$(nproc)}" "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wno-missing-field-initializers -Werror -Iinclude -Ilib -I. "-I$generated"; then
  echo "check_syntax: ${#sources[@]} files, all fine with $compiler"
else
  echo "check_syntax: some of ${#sources[@]} files do not compile with $compiler"
  exit 1
fi
