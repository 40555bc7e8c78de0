#!/bin/sh
# Compiles each program here with nvcc, runs its host half (which computes what the kernel must give) and writes the case folder ../cases/cuda_NAME.
# Usage: make.sh [NAME.cu]. Needs nvcc 13 and its host compiler, no GPU. The folders are kept in the repository: this is for who changes a program.
set -e
cd "$(dirname "$0")"
for source in ${1:-*.cu}; do
  name=${source%.cu}
  folder=../cases/cuda_$name
  arch=sm_90a
  [ "$name" = narrow ] && arch=sm_100a
  mkdir -p "$folder"
  nvcc -std=c++17 -arch=$arch -diag-suppress 20012,20014,177 -ptx -o "$folder/kernel.ptx" "$source"
  nvcc -std=c++17 -arch=$arch -diag-suppress 20012,20014,177 -o "./generate_$name" "$source"
  "./generate_$name" "$folder"
  rm "./generate_$name"
done
