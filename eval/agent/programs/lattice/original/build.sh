# sh build.sh FOLDER: build FOLDER/lattice and put its settings next to it.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/toolchain"
case "$BUILD_TYPE" in
Release) flags="-O3 -DNDEBUG" ;;
RelWithDebInfo) flags="-O2 -g -lineinfo -DNDEBUG" ;;
Checked) flags="-O2 -g -lineinfo" ;;
Debug) flags="-O0 -g -lineinfo" ;;
*) echo "unknown build type $BUILD_TYPE" >&2; exit 2 ;;
esac
flags="-std=c++17 $flags -arch=${CUDA_ARCH:-native} $EXTRA_FLAGS"
mkdir -p "$1"
cp "$here/lattice.ini" "$1/lattice.ini"
sources=""
for name in main.cu simulation.cu flow.cu relaxation.cu macroscopic.cu tracers.cu diagnostics.cu settings.cpp files.cpp; do sources="$sources $here/$name"; done
exec "${NVCC:-nvcc}" $flags -o "$1/lattice" $sources
