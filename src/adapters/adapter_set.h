// Several adapters of one model, of which one or none is on: read once, switched by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "model/causal_lm.h"
#include "ops/linear.h"

namespace hone::adapters {

// Only an adapter's tensors (fp32) are kept: no gradients, and the copies for GEMMs are made again for the
// one that is on. After a switch the results are bit-equal to those of a process that read only this adapter,
// for any ranks and modules of the others, DoRA included. The frozen adapters below (frozen_adapters.h) stay.
// Nothing here is trained.
class AdapterSet {
 public:
  explicit AdapterSet(model::CausalLm& model) : model_(model) {}  // which must outlive it

  // Reads the adapter in `folder` and keeps it as `name`; the model's current adapter does not change.
  // UserError for a duplicate name, for the errors of Adapter::load, and for a reward model's adapter.
  void load(const std::string& name, const base::fs::path& folder);
  // Switches the model to this adapter; keys and values that were computed before are invalid. UserError for
  // an unknown name.
  void activate(const std::string& name);
  void deactivate();  // the model without any

  std::vector<std::string> names() const;                // in the order in which they were read
  const std::string& active() const { return active_; }  // empty: none
  std::int64_t bytes() const;                            // of the tensors that are kept

 private:
  struct One {
    std::string name;
    std::vector<std::optional<ops::LoraWeights>>
        sides;  // one per linear of the model, in order, and of the head
    model::TokenRows token_rows;
    model::TrainedParts parts;
  };
  // Restores the model's adapter, also after an error.
  struct RestoreActive {
    AdapterSet& set;
    const One* one;
    ~RestoreActive() {
      set.put(one);
      set.model_.set_score_head({});
    }
  };
  void put(const One* one);  // null: none
  const One* find(const std::string& name) const;

  model::CausalLm& model_;
  std::vector<One> all_;
  std::string active_;
};

}  // namespace hone::adapters
