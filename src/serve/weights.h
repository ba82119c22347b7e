// What a request may name as its model: the base, adapters that were given at the start, versions that
// training has saved. A version never changes; it lives as long as somebody holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/linear.h"

namespace hone::serve {

// Null: the base.
using Version = std::shared_ptr<const ops::AdapterSides>;

struct NamedWeights {
  std::string name;          // as requests have it
  Version version;           // null: the base
  std::string parent;        // of an adapter: the base's name; empty: it is the base
  std::int64_t created = 0;  // seconds since 1970
  bool listed = true;        // GET /v1/models names it
};

// Thread-safe. A request binds its version when it is accepted: find() once, and hold what it gives.
class Weights {
 public:
  explicit Weights(std::string base_name);
  // Adds the name, or gives it other weights: later requests have those.
  void set(NamedWeights weights);
  void remove(std::string_view name);  // running requests keep theirs
  std::optional<NamedWeights> find(std::string_view name) const;
  const std::string& base_name() const { return base_name_; }
  std::vector<NamedWeights> all() const;                // the base first, then in the order of set()
  std::string suggestion(std::string_view name) const;  // "Did you mean ...?", or empty

 private:
  const std::string base_name_;
  mutable std::mutex mutex_;
  std::vector<NamedWeights> all_;
};

}  // namespace hone::serve
