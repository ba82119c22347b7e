// Clients have saved this, below the server's root:
//
//   ROOT/RUN/run.json               the run: its base model, LoRA and user_metadata
//   ROOT/RUN/weights/NAME/          PEFT's adapter, the optimizer's moments (training/moments.h), saved.json
//   ROOT/RUN/sampler_weights/NAME/  PEFT's adapter, saved.json
//
// A folder is staged and renamed, so that it is whole or absent after any kill. The folders are what `hone
// eval`, `merge`, `push` and adapter_name_or_path read. Nothing else that a client sends names a file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "serve/tinker/paths.h"
#include "serve/training/trained_model.h"

namespace hone::serve {

// Holds what is known of a run without its weights.
struct RunFacts {
  std::string id, base_model;
  LoraChoice lora;
  base::Json user_metadata;  // an object of texts, or null
};

struct SavedFacts {
  TinkerPath path;
  std::int64_t time = 0;                        // seconds since 1970
  std::optional<std::int64_t> expires_at = {};  // the same
  std::int64_t steps = 0;                       // of the optimizer
  std::int64_t bytes = 0;                       // of its files; filled by reading
  RunFacts run;
  base::Json user_metadata = nullptr;
};

// "2026-11-26T00:00:00Z"
std::string iso_time(std::int64_t seconds);
std::int64_t now_seconds();

class Store {
 public:
  explicit Store(base::fs::path root) : root_(std::move(root)) {}

  const base::fs::path& root() const { return root_; }
  bool exists(const TinkerPath& path) const;  // and has not expired
  // `write` puts the weights into the folder that it is given. UserError where `path` is there and
  // `overwrite` is false.
  void save(const SavedFacts& facts, bool overwrite,
            const std::function<void(const base::fs::path&)>& write) const;
  // Facts and folder of a path. UserError where it is absent, has expired, is damaged, or is behind a link.
  SavedFacts read(const TinkerPath& path) const;
  base::fs::path folder(const TinkerPath& path) const { return existing_folder(root_, path); }
  void remove(const TinkerPath& path) const;  // UserError where it is absent
  void set_expiry(const TinkerPath& path, std::optional<std::int64_t> expires_at) const;

  std::optional<RunFacts> run(const std::string& id) const;
  std::vector<std::string> runs() const;                        // ids, in order
  std::vector<SavedFacts> saved(const std::string& run) const;  // the oldest first; without what has expired

 private:
  base::fs::path root_;
};

}  // namespace hone::serve
