// From a plan's words to the parts that every method opens: tokenizer, template, number formats.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "model/causal_lm.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::train {

struct OpenedText {
  text::Tokenizer tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;  // null: the tokenizer has none and the plan names none
  std::unique_ptr<text::ChatTemplate> training =
      {};                                // SFT: open_training_template(), for as long as rows are read
  std::vector<std::int64_t> added = {};  // ids of tokens that a folder as chat_template_path brought
};

// The tokenizer of a model folder or GGUF; `chat_template_path` (a .jinja file) replaces its template.
OpenedText open_text(const base::fs::path& model, const std::string& chat_template_path);
// `tokenizer`: where the model's is, when that is not its folder or file (WeightSource::tokenizer_path).
OpenedText open_text(const config::Plan& plan, const base::fs::path& tokenizer = {});

// TRL's training form of the run's template (text/training_template.h), where assistant_only_loss needs generation
// tags and the template has none; null: as it is. Says so in `notes`.
std::unique_ptr<text::ChatTemplate> open_training_template(const config::Plan& plan, const OpenedText& opened,
                                                           std::vector<std::string>& notes);

// The plan's training or evaluation rows, with what only the template can tell: auto_insert_empty_system_msg.
base::RowFiles rows_for(const text::Tokenizer& tokenizer, const config::Plan& plan, base::RowFiles rows);

at::Device device(const config::MachinePlan& plan);
model::DtypePolicy dtype_policy(config::Precision precision);
model::DtypePolicy dtype_policy(const config::ModelPlan& plan);  // with cast_lm_head_to_fp32
model::Quantize quantize(config::QuantizedBase base, bool nested, bool experts);
model::Quantize quantize(const config::ModelPlan& plan);
// A note when the checkpoint is already quantized and the plan asks for something else.
std::optional<std::string> quantized_note(const config::ModelPlan& plan, const model::CausalLm& model);
std::uint64_t plan_seed(const config::BatchPlan& plan);

}  // namespace hone::train
