// The classes of include/hone hold these parts. The headers there show neither libtorch nor the rooms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adapters/lora.h"
#include "hone/adapter.h"
#include "hone/model.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "train/opening/open_model.h"

namespace hone {

struct Model::Parts {
  std::unique_ptr<model::WeightSource> source;
  train::OpenedText text;
  model::CausalLm model;
  std::vector<std::int64_t> stop_ids;
  const Adapter::Parts* adapter = nullptr;  // the one that was attached last, while it lives
};

struct Adapter::Parts {
  Model::Parts& model;
  adapters::Adapter adapter;
  bool has_gradient = false;  // something was added since the last step

  Parts(Model::Parts& of, adapters::Adapter attached) : model(of), adapter(std::move(attached)) {
    model.adapter = this;
  }
  ~Parts() {
    if (model.adapter != this) return;
    model.adapter = nullptr;
    for (ops::Linear* const linear : model.model.linears_and_head()) linear->lora.reset();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
};

}  // namespace hone
