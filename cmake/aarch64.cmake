# Toolchain file: 64-bit ARM Linux with Debian's cross compiler; tests run in the emulator (scripts/test_arm.sh).
# QEMU_CPU in the environment chooses the emulated processor; qemu's own default is `max`, every extension it knows.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)  # g++ notes an ABI change before any version we can use
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
