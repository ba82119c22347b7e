// A training step without the loop around it: zeroing, forward, backward, clipping, AdamW, on LoRA r 16 of
// every linear. Two passes: 4 rows of 256 tokens, all but the first of each scored; and 544 tokens (8 rows of
// 68) with 512 scored. On demand: 8 completions of 64 tokens with a prompt of 512 that they share, or with
// the prompt repeated before each.
//
// usage: bench_step [--model FOLDER | --shapes q05b] [--pass training,scored,shared,repeated]
//                   [--recompute cheap,layer] [--steps 2]
//                   [--layer_form explicit|plain] [--storage plain|packed] [--dropout_percent 0]
//                   [--threads 2]
//                   [--instructions avx512_bf16] [--json FILE] [--quick]
#include <ATen/ATen.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "adapters/lora.h"
#include "base/error.h"
#include "bench/measure.h"
#include "bench/open.h"
#include "bench/probe.h"
#include "bench/work.h"
#include "learn/adamw.h"
#include "model/fused_pass.h"
#include "ops/head/linear_logprob.h"
#include "train/passes/scored_pass.h"

namespace hone::bench {

namespace {

constexpr std::int64_t kRank = 16;
constexpr double kAlpha = 32, kLearningRate = 1e-4;

struct Pass {
  std::string name;
  std::vector<std::int64_t> lengths;
  std::int64_t scored_each = 0;
  std::int64_t prompt = 0;  // shared by all
  PassShape shape() const {
    return {.lengths = lengths,
            .scored = scored_each * static_cast<std::int64_t>(lengths.size()),
            .prompt = prompt};
  }
};

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) out.push_back(part);
  return out;
}

template <typename T>
T one_of(const std::string& option, const std::string& word,
         const std::vector<std::pair<std::string, T>>& choices) {
  std::string all;
  for (const auto& [name, value] : choices) {
    if (name == word) return value;
    all += " " + name;
  }
  throw base::UserError({.where = "--" + option, .expected = "one of" + all, .found = word});
}

Pass pass_of(const std::string& word) {
  return one_of<Pass>("pass", word,
                      {{"training", {"4 x 256", {256, 256, 256, 256}, 255}},
                       {"scored", {"8 x 68, 64 scored", {68, 68, 68, 68, 68, 68, 68, 68}, 64}},
                       {"shared", {"512 shared by 8 x 64", std::vector<std::int64_t>(8, 64), 64, 512}},
                       {"repeated", {"8 x 576, 64 scored", std::vector<std::int64_t>(8, 576), 64}},
                       {"small", {"2 x 16", {16, 16}, 15}}});
}

model::RecomputeLevel recompute_of(const std::string& word) {
  using enum model::RecomputeLevel;
  return one_of<model::RecomputeLevel>("recompute", word,
                                       {{"none", kNone}, {"cheap", kCheap}, {"layer", kLayer}});
}

// Model, adapter and optimizer: what a step works on.
class Trainee {
 public:
  Trainee(const model::WeightSource& source, model::Storage storage, double dropout)
      : model_(open_model(source, storage)),
        adapter_(adapters::Adapter::attach(model_,
                                           {.r = kRank,
                                            .alpha = kAlpha,
                                            .dropout = dropout,
                                            .target_modules = {"all-linear"},
                                            .target_is_regex = true},
                                           0)),
        optimizer_(learn::AdamWState::zeros_like(adapter_.flat())) {}

  const model::ModelConfig& config() const { return model_.config(); }

  train::ScoredFacts step(const data::Batch& batch, const train::PassForm& form) {
    adapter_.zero_gradient();
    const auto n = static_cast<double>(train::scored_tokens(batch));
    const auto facts =
        train::score_and_backward(model_, batch, {.training = true, .seed = 1, .step = 1}, n, form);
    update();
    return facts;
  }

  // The same in pieces, as train/passes/scored_pass.cpp's explicit pass puts them together.
  std::vector<std::pair<std::string, double>> phases(const data::Batch& batch,
                                                     model::RecomputeLevel recompute) {
    adapter_.zero_gradient();
    std::vector<std::int64_t> source, target, row;
    for (const data::Segment& s : batch.segments) {
      row.insert(row.end(), static_cast<std::size_t>(s.end - s.begin), s.row);
      for (std::int64_t t = s.begin; t < s.end; ++t) {
        const std::int64_t label = batch.labels[static_cast<std::size_t>(t)];
        if (label == data::kIgnore) continue;
        const bool after_prefix = t == s.begin && s.prefix != data::kNoPrefix;
        source.push_back(after_prefix ? batch.segments[static_cast<std::size_t>(s.prefix)].end - 1 : t - 1);
        target.push_back(label);
      }
    }
    const ops::PassContext context = {
        .training = true, .seed = 1, .step = 1, .token_row = &row, .token_position = &batch.positions};
    const double t0 = now();
    model::FusedPass pass(model_, batch, context);
    const at::Tensor rows = pass.forward(at::tensor(source, at::kLong), recompute);
    const double t1 = now();
    const auto found =
        ops::linear_logprob(rows, model_.head(), at::tensor(target, at::kLong), {.gradient = true});
    const double t2 = now();
    pass.backward(found.gradient.mul(-1 / static_cast<double>(target.size())));
    const double t3 = now();
    update();
    const double t4 = now();
    return {{"forward", t1 - t0}, {"head", t2 - t1}, {"backward", t3 - t2}, {"clip + AdamW", t4 - t3}};
  }

 private:
  void update() {
    learn::clip_gradient(adapter_.flat_gradient(), 1.0);
    learn::adamw_step(adapter_.flat(), adapter_.flat_gradient(), optimizer_, {}, kLearningRate);
  }

  model::CausalLm model_;
  adapters::Adapter adapter_;
  learn::AdamWState optimizer_;
};

struct Result {
  std::string pass, form;
  PassShape shape;
  PassWork work;
  Timing timing;
  double peak_mb = 0;
  std::vector<std::pair<std::string, double>> phases;
};

Result measure_pass(Trainee& trainee, const Pass& pass, const train::PassForm& form, const std::string& name,
                    std::int64_t steps) {
  const data::Batch batch = make_batch(trainee.config(), pass.lengths, pass.scored_each, pass.prompt);
  Result out{.pass = pass.name,
             .form = name,
             .shape = pass.shape(),
             .work = pass_work(trainee.config(), pass.shape(), kRank,
                               form.is_fused && form.recompute == model::RecomputeLevel::kLayer)};
  reset_peak_memory();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double start = now();
    if (pass.prompt > 0) {  // only the pieces know of a shared prompt
      trainee.phases(batch, form.recompute);
    } else {
      const auto facts = trainee.step(batch, form);
      base::require(facts.scored == out.shape.scored, "bench_step", "as many scored rows as were counted");
    }
    seconds.push_back(now() - start);
  }
  out.peak_mb = peak_memory_mb();
  std::sort(seconds.begin(), seconds.end());
  out.timing = {.best = seconds.front(), .median = seconds[seconds.size() / 2], .repetitions = steps};
  if (form.is_fused) out.phases = trainee.phases(batch, form.recompute);
  return out;
}

void print(const std::vector<Result>& results, const Rates& rates) {
  Table table({"pass", "form", "best s", "median s", "tok/s", "limit s", "share",
               "share, attention and LoRA counted", "peak MB"});
  for (const Result& r : results) {
    const double limit = r.work.products() / rates.bf16_gflops / 1e9,
                 limit_all = r.work.all() / rates.bf16_gflops / 1e9;
    table.add({r.pass, r.form, fixed(r.timing.best, 3), fixed(r.timing.median, 3),
               fixed(static_cast<double>(r.shape.tokens()) / r.timing.best, 1), fixed(limit, 3),
               percent(limit / r.timing.best), percent(limit_all / r.timing.best), fixed(r.peak_mb, 0)});
  }
  table.print();
  Table phases({"pass", "form", "forward s", "head s", "backward s", "clip + AdamW s"});
  for (const Result& r : results) {
    if (r.phases.empty()) continue;
    std::vector<std::string> row = {r.pass, r.form};
    for (const auto& [name, seconds] : r.phases) row.push_back(fixed(seconds, 3));
    phases.add(row);
  }
  if (phases.empty()) return;
  std::cout << "One more step of each, by phase:\n\n";
  phases.print();
}

base::Json to_json(const std::vector<Result>& results, const Rates& rates) {
  base::Json out = {{"rates", bench::to_json(rates)}, {"passes", base::Json::array()}};
  for (const Result& r : results) {
    base::Json phases = base::Json::object();
    for (const auto& [name, seconds] : r.phases) phases[name] = seconds;
    out["passes"].push_back({{"pass", r.pass},
                             {"form", r.form},
                             {"tokens", r.shape.tokens()},
                             {"scored", r.shape.scored},
                             {"best_s", r.timing.best},
                             {"median_s", r.timing.median},
                             {"steps", r.timing.repetitions},
                             {"flop_products", r.work.products()},
                             {"flop_all", r.work.all()},
                             {"limit_s", r.work.products() / rates.bf16_gflops / 1e9},
                             {"peak_mb", r.peak_mb},
                             {"phases_s", phases}});
  }
  return out;
}

int run(int argc, char** argv) {
  const Arguments arguments(
      argc, argv, with_common({"pass", "recompute", "steps", "layer_form", "storage", "dropout_percent"}),
      common_flags());
  prepare_process(arguments);
  const bool quick = arguments.flag("quick");
  const bool is_fused = one_of<bool>("layer_form", arguments.text("layer_form", "explicit"),
                                     {{"explicit", true}, {"plain", false}});
  const auto storage =
      one_of<model::Storage>("storage", arguments.text("storage", "plain"),
                             {{"plain", model::Storage::kPlain}, {"packed", model::Storage::kPacked}});
  const auto source = open_source(arguments);
  const Rates before = probe(source->config(), quick);
  Trainee trainee(*source, storage, 0.01 * static_cast<double>(arguments.number("dropout_percent", 0)));
  const Pass small = pass_of("small");
  trainee.step(make_batch(trainee.config(), small.lengths, small.scored_each),
               {.is_fused = is_fused});  // warm up

  std::vector<Result> results;
  for (const std::string& pass : split_words(arguments.text("pass", quick ? "small" : "training,scored"))) {
    // The pass of 544 tokens is measured where recompute is not the question.
    const std::string otherwise = !is_fused || pass == "scored" ? "none"
                                  : pass == "training"          ? "cheap,layer"
                                                                : "cheap";
    for (const std::string& level : split_words(arguments.text("recompute", otherwise))) {
      const train::PassForm form{.is_fused = is_fused, .recompute = recompute_of(level)};
      results.push_back(measure_pass(trainee, pass_of(pass), form, is_fused ? "explicit, " + level : "plain",
                                     arguments.number("steps", quick ? 1 : 2)));
    }
  }
  const Rates rates = better_of(before, probe(source->config(), quick));
  std::cout << name_of(arguments) << ", bf16, LoRA r " << kRank << " on every linear, dropout "
            << arguments.number("dropout_percent", 0) << " %, " << arguments.number("threads", 2)
            << " threads; " << sentence(rates) << ".\n\n";
  print(results, rates);
  write_json(arguments.text("json", ""), to_json(results, rates));
  return 0;
}

}  // namespace

}  // namespace hone::bench

int main(int argc, char** argv) {
  return hone::bench::run_main(&hone::bench::run, argc, argv);
}
