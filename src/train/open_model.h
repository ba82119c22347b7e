// From a plan's words to the parts that every method opens: tokenizer, template, number formats.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/plan.h"
#include "model/causal_lm.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::train {

struct OpenedText {
  text::Tokenizer tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;  // null: the tokenizer has none and the plan names none
};

// The tokenizer of a model folder or GGUF; `chat_template_path` (a .jinja file) replaces its template.
OpenedText open_text(const base::fs::path& model, const std::string& chat_template_path);
OpenedText open_text(const config::Plan& plan);

at::Device device(const config::MachinePlan& plan);
model::DtypePolicy dtype_policy(config::Precision precision);
model::Quantize quantize(config::QuantizedBase base, bool nested);
model::Quantize quantize(const config::ModelPlan& plan);
// A note when the checkpoint is already quantized and the plan asks for something else.
std::optional<std::string> quantized_note(const config::ModelPlan& plan, const model::CausalLm& model);
std::uint64_t plan_seed(const config::BatchPlan& plan);

}  // namespace hone::train
