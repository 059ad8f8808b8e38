# sh build.sh FOLDER: build FOLDER/solver.
set -e
here=$(dirname "$0")
flags="-std=c++17 -O3 -lineinfo -arch=${CUDA_ARCH:-native}"
exec "${NVCC:-nvcc}" $flags -o "$1/solver" "$here"/main.cu "$here"/solve.cu "$here"/operator.cu "$here"/vectors.cu "$here"/files.cpp
