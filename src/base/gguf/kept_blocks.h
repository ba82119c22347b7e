// Memory of tensors of 1 MiB and more, kept for the next ones when they are freed. glibc gives each block of
// 32 MiB and more back to the kernel, which clears its pages again when the next tensor is written: a fifth
// of a step of 4,096 tokens. Smaller blocks come from a heap whose holes stay with the process: up to a tenth
// of a step's peak.
//
// So a block is a mapping of its own. What lives and what is kept together are at most what lived at most,
// and `over`; beyond that the oldest kept blocks are unmapped. A mapping has addresses for twice its bytes,
// so that batches of different lengths use each other's: a smaller block grows, and of a larger one the end,
// its tail, counts as kept. Tails go back in whole huge pages first: what is left of a huge page the system
// may keep until it needs memory.
//
// Blocks are malloc's, and none is kept, where addresses count: under `ulimit -v` and `ulimit -d`, and where
// the system lends no memory beyond what it has (vm.overcommit_memory 2). AddressSanitizer sees every block.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace hone::base {

class KeptBlocks {
 public:
  static constexpr std::size_t kCounted = std::size_t{1} << 20;  // smaller blocks are malloc's alone
  static constexpr std::size_t kOver = std::size_t{32} << 20;    // of this process's tensors

  // A process has 65,530 mappings where nobody changed that; a block may be three. Further ones are malloc's.
  static constexpr std::size_t kMostMappings = 8192;

  struct Block {
    void* memory = nullptr;  // null: there is none
    std::size_t bytes = 0;   // of it: whole pages
    bool is_new = false;     // has pages that no block had before
  };

  // `over`: bytes that may be kept beyond what lived at most.
  explicit KeptBlocks(std::size_t over = 0);

  // Thread-safe, as release() and return_kept().
  Block take(std::size_t bytes);
  void release(void* memory, std::size_t bytes);  // bytes: take()'s
  // All kept blocks are freed, and the most that lived is counted from now on.
  void return_kept();

  struct Sizes {
    std::size_t live = 0, kept = 0, most_live = 0;  // of counted blocks
  };
  Sizes sizes() const;
  bool keeps() const { return keeps_; }  // false: every block is malloc's

 private:
  struct Mapping {
    void* memory = nullptr;
    std::size_t addresses = 0;  // its bytes
    std::size_t written = 0;    // the first of them, which may have pages
    std::size_t used = 0;       // the first, which a block has
  };

  Block of_kept(std::size_t bytes, bool has_room);
  Block of_new(std::size_t bytes);
  Mapping mapped(std::size_t bytes) const;
  std::deque<Mapping>::iterator nearest(std::size_t bytes, bool has_room);
  void free_beyond(std::size_t bytes);  // of live and kept
  void free_end(Mapping& mapping, std::size_t left, std::size_t page);
  void free_oldest();

  const bool keeps_;
  const std::size_t over_;
  mutable std::mutex mutex_;
  std::deque<Mapping> kept_;  // the oldest first
  std::unordered_map<void*, Mapping> live_;
  Sizes sizes_;
};

// The one of this process's tensors. Never destroyed: tensors of static objects are freed at the end of the
// process.
KeptBlocks& kept_blocks();

}  // namespace hone::base
