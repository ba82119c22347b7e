#include "commands/base_check.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <iostream>

#include "base/error.h"
#include "base/strings/plural.h"
#include "base/verdict.h"
#include "model/config/families.h"
#include "report/terminal/terminal.h"
#include "report/terminal/verdict_lines.h"
#include "train/opening/input_files.h"

namespace hone::commands {

namespace {

void warn_of_changes(const std::string& base, const base::fs::path& adapter) {
  const std::vector<std::string> changed = train::compare_base(adapter, base).changed;
  if (changed.empty()) return;
  const base::Verdict verdict = {
      .code = "CKPT-07",
      .level = base::Level::kWarn,
      .part = "merge",
      .what = "the base model in " + base + " is not the one that " + adapter.string() + " was trained on",
      .evidence = changed.front() + " has other contents than the adapter's run noted" +
                  (changed.size() == 1
                       ? ""
                       : "; so " + std::string(changed.size() == 2 ? "has " : "have ") +
                             base::counted(static_cast<std::int64_t>(changed.size()) - 1, "other file")),
      .cause = "the files were replaced or damaged, or this is another model with files of the same names",
      .not_this = "another format or another folder: only files of the same name are compared",
      .fix = "--model_name_or_path: the model that the adapter was trained on; restore its files",
      .cost = "an adapter that corrects what this base does not do"};
  std::cout << report::run_verdict_lines(verdict, 0, report::terminal_of(STDOUT_FILENO)) << std::flush;
}

void require_finite(const model::WeightSource& source, const std::string& name) {
  const at::ScalarType dtype = source.quantization(name) ? at::kFloat : source.stored_dtype(name);
  const at::Tensor values = source.read(name, at::isFloatingType(dtype) ? dtype : at::kFloat);
  const at::Tensor finite = at::isfinite(values);
  const std::int64_t bad = values.numel() - finite.sum().item<std::int64_t>();
  if (bad == 0) return;
  throw base::UserError(
      {.where = source.path().string() + ": " + name,
       .expected = "a base with finite weights (NUM-02)",
       .found = std::to_string(bad) + " of its " + base::counted(values.numel(), "value") +
                (bad == 1 ? " is" : " are") + " infinite or not a number",
       .cause = "the file of the base is damaged, or the base comes from a training that diverged",
       .fix = "download or convert the base again; the adapter is not the cause, and nothing was written"});
}

}  // namespace

void check_base_to_merge(const model::WeightSource& source, const std::string& base,
                         const std::vector<base::fs::path>& adapters) {
  const at::NoGradGuard no_grad;
  for (const base::fs::path& adapter : adapters) warn_of_changes(base, adapter);
  for (const model::TensorSpec& spec : model::expected_tensors(source.config())) {
    if (source.has(spec.name)) require_finite(source, spec.name);
  }
}

}  // namespace hone::commands
