// hone convert: a GGUF file or a folder in, a Hugging Face folder out.
#include <ATen/core/Tensor.h>
#include <unistd.h>

#include <iostream>

#include "commands/commands.h"
#include "config/commands/tool_plans.h"
#include "model/files/export.h"
#include "model/files/weight_source.h"
#include "report/long_work.h"
#include "report/terminal/terminal.h"
#include "train/opening/open_model.h"
#include "train/opening/score_source.h"

namespace hone::commands {

namespace {

at::ScalarType scalar_type(config::StorageType type) {
  switch (type) {
    case config::StorageType::kFloat32:
      return at::kFloat;
    case config::StorageType::kFloat16:
      return at::kHalf;
    case config::StorageType::kBFloat16:
      return at::kBFloat16;
  }
  return at::kFloat;
}

}  // namespace

int convert(const std::vector<std::string>& arguments) {
  const config::ConvertPlan plan = config::parse_convert(arguments);
  print_notes(plan.notes);
  const auto source = model::open_weights(plan.input);
  const auto facts = [&] {
    const report::LongWork progress(std::cout, report::terminal_of(STDOUT_FILENO));
    model::ExportOptions options;
    options.dtype = scalar_type(plan.dtype);
    options.quantize = train::quantize(plan.quantize, plan.use_bnb_nested_quant, /*experts=*/false).scheme;
    if (source->has(train::kScoreWeight)) options.score = source->read(train::kScoreWeight, at::kFloat);
    return model::write_hf_folder(*source, plan.output, options);
  }();
  std::cout << report::visible_controls(plan.output) << ": " << facts.tensors << " tensors, "
            << report::human_bytes(facts.bytes)
            << (facts.tokenizer ? ", with its tokenizer\n" : "; the source has no tokenizer to copy\n");
  return 0;
}

}  // namespace hone::commands
