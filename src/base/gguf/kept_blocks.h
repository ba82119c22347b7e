// Memory of large tensors, kept for the next ones when they are freed. glibc gives each block of 32 MiB and more back to the
// kernel, which clears its pages again when the next tensor is written: a fifth of a step of 4,096 tokens.
//
// The peak of tensors' memory stays what it was: what lives and what is kept together are never more than what lived at most
// (blocks that are up to a sixteenth too large count whole). So before more is taken from malloc, kept blocks that do not fit
// are freed, the oldest first. Nothing is kept under a limit of the process's addresses (`ulimit -v`), which all memory shares.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>

namespace hone::base {

class KeptBlocks {
 public:
  static constexpr std::size_t kCounted = std::size_t{1} << 20;  // smaller blocks are malloc's alone
  static constexpr std::size_t kKept = std::size_t{32} << 20;    // and smaller ones than this are not kept

  struct Block {
    void* memory = nullptr;  // as malloc gives it; null: there is none
    std::size_t bytes = 0;   // of it; at most a sixteenth more than was asked for
    bool is_new = false;     // malloc's, not a kept one
  };

  KeptBlocks();

  // Thread-safe, as release() and return_kept().
  Block take(std::size_t bytes);
  void release(void* memory, std::size_t bytes);  // bytes: take()'s
  // All kept blocks are freed, and the most that lived is counted from now on.
  void return_kept();

  struct Sizes {
    std::size_t live = 0, kept = 0, most_live = 0;  // of counted blocks
  };
  Sizes sizes() const;

 private:
  void* take_kept(std::size_t bytes, std::size_t& found);
  void free_oldest_beyond(std::size_t bytes);  // of live and kept

  const bool keeps_;
  mutable std::mutex mutex_;
  std::deque<Block> kept_;  // the oldest first
  Sizes sizes_;
};

// The one of this process's tensors. Never destroyed: tensors of static objects are freed at the end of the process.
KeptBlocks& kept_blocks();

}  // namespace hone::base
