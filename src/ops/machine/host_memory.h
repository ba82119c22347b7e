// The memory of CPU tensors.
#pragma once

namespace hone::ops {

// From now on every CPU tensor of this process has its memory from base/gguf/kept_blocks.h, aligned to 64
// bytes here. libtorch uses posix_memalign, which until glibc 2.38 never reuses a freed block for a request
// of the same size (it searches for a block with room to align), so that the heap of a training step grows to
// twice its live size. Blocks of 4 MB and more use huge pages. Idempotent; existing tensors keep their
// memory. Out of memory is a UserError.
void use_host_memory();

}  // namespace hone::ops
