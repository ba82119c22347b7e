// Several adapters of one model: read once; one or none of them is on, switched by name, and requests of an engine may
// name any of them at once (rollout/engine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
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
  // For requests beside those of other adapters; null: it trains rows of the embedding, whole tensors or experts, or has
  // values that are not finite, and has to be activated. UserError for an unknown name.
  std::shared_ptr<const ops::AdapterSides> sides(const std::string& name) const;

  std::vector<std::string> names() const;                // in the order in which they were read
  const std::string& active() const { return active_; }  // empty: none
  std::int64_t bytes() const;                            // of the tensors that are kept

 private:
  struct One {
    std::string name;
    std::shared_ptr<const ops::AdapterSides> sides;
    bool is_sides_alone = true;  // AdapterSet::sides
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
  const One& known(const std::string& name) const;

  model::CausalLm& model_;
  std::vector<One> all_;
  std::string active_;
};

}  // namespace hone::adapters
