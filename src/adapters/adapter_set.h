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

// What is kept of an adapter is its tensors alone (fp32): no gradients, and the copies that GEMMs read are
// made again for the one that is on. After a switch the model gives what a process that read this adapter
// alone would give, bit for bit, whatever ranks and modules the others have, DoRA among them. What lies below
// (frozen_adapters.h) stays. Nothing here is trained.
class AdapterSet {
 public:
  explicit AdapterSet(model::CausalLm& model) : model_(model) {}  // which must outlive it

  // Reads the adapter in `folder` and keeps it as `name`; the model has the adapter that it had. UserError
  // for a name that is taken, for what Adapter::load refuses, and for a reward model's.
  void load(const std::string& name, const base::fs::path& folder);
  // From here on the model has this adapter: keys and values that it computed before belong to another model.
  // UserError for a name that is not there.
  void activate(const std::string& name);
  void deactivate();  // the model without any

  std::vector<std::string> names() const;                // in the order in which they were read
  const std::string& active() const { return active_; }  // empty: none
  std::int64_t bytes() const;                            // of the tensors that are kept

 private:
  struct One {
    std::string name;
    std::vector<std::optional<ops::LoraWeights>> sides;  // as many as the model's linears, in their order
    model::TokenRows token_rows;
  };
  // Puts the model's adapter back, also when what was read is refused.
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
