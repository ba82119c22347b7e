// The Tinker API is told this at a server's start.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "serve/tinker/futures.h"
#include "serve/training/trained_model.h"

namespace hone::serve {

struct TinkerOptions {
  std::string model_name;                // what clients call the base: the hub's name
  std::vector<std::string> other_names;  // names that it has too
  base::fs::path root = "serve";         // of what clients save (store.h)
  std::uint64_t seed = 0;                // of draws and LoRAs for which a client gives none
  std::vector<std::int64_t> stop_ids;    // the model's end tokens
  // Does the text of these tokens now hold one of the stop strings? Called on the compute thread.
  std::function<bool(std::span<const std::int32_t>, const std::vector<std::string>&)> ends_with_stop;
  std::function<bool()> drains;  // true: the server is being stopped, and new work gets 503; empty: it is not
  std::int64_t max_context = 0;  // tokens of a request with its max_tokens; 0: the model's positions
  std::size_t waiting_requests = 1024;
  std::size_t waiting_bytes = std::size_t{64} << 20;
  std::int64_t adapter_memory = std::int64_t{1}
                                << 30;  // of versions that clients sample from (kept_versions.h)
  // Null: gradients are added by arrival (TrainedModel::add_in_bins).
  std::shared_ptr<DatumRoom> datum_room;
  std::chrono::milliseconds gap{60000};         // a missing seq_id is waited for so long
  std::chrono::milliseconds heartbeat{600000};  // a session without one ends
  FutureLimits futures;
};

// What autosave() did: the paths of what was written, and "MODEL: why" for each model that could not be.
struct Autosaved {
  std::vector<std::string> paths, failures;
};

}  // namespace hone::serve
