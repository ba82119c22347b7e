// Versions that sampling sessions hold for as long as they live: within a bound in memory, the others in a file. No
// client gives a version back before its session ends, and a loop that trains makes one each step.
//
//   KeptVersions versions({.folder = "serve", .bound = 1 << 30});
//   const Kept one = versions.keep(model.snapshot());
//   const Version weights = versions.use(one);     // read from the file, where it is there
//
// For one thread, facts() excepted. The least lately used goes to the file; one that a request has is in memory, and
// counts there, until that ends, also when no session has it any more. A version that was read from the file has the bits
// of the one that was written.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/files/file.h"
#include "serve/spill_file.h"
#include "serve/weights.h"

namespace hone::serve {

// The last copy that ends gives the version's memory and its place in the file back. Null: the base.
using Kept = std::shared_ptr<const std::uint64_t>;

struct KeptOptions {
  base::fs::path folder = "serve";             // of the file, which is made when the memory is full
  std::int64_t bound = std::int64_t{1} << 30;  // bytes in memory
};

struct KeptFacts {
  std::int64_t versions = 0, bytes = 0, file_bytes = 0;  // all; in memory; in the file
};

class KeptVersions {
 public:
  explicit KeptVersions(const KeptOptions& options) : options_(options), file_(options.folder) {}
  KeptVersions(const KeptVersions&) = delete;
  KeptVersions& operator=(const KeptVersions&) = delete;
  // Every Kept must have ended.
  ~KeptVersions() = default;

  // LoRA alone: no magnitudes. UserError when others have to go to the file, and it cannot be written: nothing is
  // kept then.
  Kept keep(Version version);
  // Nothing: it is in the file, and the memory is full of versions that requests have. UserError where it has to come
  // from the file, and that cannot be read, or others have to go there first and it cannot be written. A version that is
  // in memory is given then too, and the failure told once on stderr.
  std::optional<Version> use(const Kept& kept);

  KeptFacts facts() const;  // from any thread

 private:
  struct Side {
    const ops::Linear* linear = nullptr;
    std::vector<std::int64_t> a, b;  // shapes
    double scale = 1;
    at::Device device = at::kCPU;
  };
  struct Entry {
    Version live;                                // null: in the file alone
    std::weak_ptr<const ops::AdapterSides> any;  // also a request's, after `live` has gone
    std::vector<Side> sides;                     // in the order of the file
    std::int64_t bytes = 0;                      // in memory
    std::int64_t begin = -1, file_bytes = 0;     // in the file; -1: nowhere
    std::uint64_t used = 0;
    bool is_in_memory() const { return !any.expired(); }
  };
  // What no session has any more, and a request still has.
  struct Dropped {
    std::weak_ptr<const ops::AdapterSides> any;
    std::int64_t bytes = 0;
  };
  void make_room(
      std::int64_t more);  // sends versions to the file until `more` bytes fit, or none is left to send
  void write(Entry& entry);
  Version read(const Entry& entry) const;
  void make_room_or_tell();
  void drop(std::uint64_t id);
  std::int64_t in_memory() const;
  void count();

  const KeptOptions options_;
  SpillFile file_;
  std::map<std::uint64_t, Entry> all_;
  std::vector<Dropped> dropped_;
  bool has_told_ = false;  // that the file cannot be written, since it last could
  std::uint64_t last_ = 0, clock_ = 0;
  std::atomic<std::int64_t> count_ = 0, bytes_ = 0, file_bytes_ = 0;
};

}  // namespace hone::serve
