// The memory of CPU tensors.
#pragma once

namespace hone::ops {

// From now on every CPU tensor of this process gets its memory from malloc, aligned to 64 bytes here.
// libtorch asks posix_memalign, which until glibc 2.38 never gives a freed block to a request of the same
// size again (it looks for one with room to align in), so that the heap of a training step grows to twice
// what it holds. Blocks of 4 MB and more are asked for in huge pages. Idempotent; tensors made before keep
// what they have. Out of memory is a UserError.
void use_host_memory();

}  // namespace hone::ops
