// The machine's rates, and what a pass over a model of these shapes must at least cost there, as JSON on
// stdout.
//
// usage: bench_probe [--model FOLDER | --shapes q05b] [--threads 2] [--lengths 256,256,256,256]
//                    [--scored 1020]
//                    [--lora_r 16] [--fp32] [--json FILE] [--quick]
#include <iostream>

#include "bench/measure.h"
#include "bench/open.h"
#include "bench/probe.h"
#include "bench/work.h"

namespace hone::bench {

namespace {

base::Json to_json(const PassWork& work, double gflops) {
  return {{"layers", work.layers},
          {"head", work.head},
          {"recompute", work.recompute},
          {"attention", work.attention},
          {"lora", work.lora},
          {"limit_seconds", work.products() / gflops / 1e9},
          {"limit_seconds_all", work.all() / gflops / 1e9}};
}

void print(const Rates& rates, const PassShape& shape, const base::Json& out) {
  std::cout << sentence(rates) << ".\n\n";
  Table table({"product", "M", "K", "N", "ours GFLOP/s", "libtorch GFLOP/s"});
  for (const auto& [dtype, list] : {std::pair{"bf16 ", &rates.bf16}, std::pair{"fp32 ", &rates.fp32}}) {
    for (const GemmRate& r : *list) {
      table.add({dtype + r.name, std::to_string(r.m), std::to_string(r.k), std::to_string(r.n),
                 fixed(r.ours, 0), fixed(r.libtorch, 0)});
    }
  }
  table.print();
  std::cout << "A pass of " << shape.tokens() << " tokens with " << shape.scored
            << " scored rows takes at least:\n\n";
  Table limits({"recompute", "matrices and head s", "with attention and LoRA s"});
  for (const char* name : {"pass", "pass_recompute_layer"}) {
    limits.add({std::string(name) == "pass" ? "none, cheap" : "layer", fixed(out[name]["limit_seconds"], 3),
                fixed(out[name]["limit_seconds_all"], 3)});
  }
  limits.print();
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv, with_common({"lengths", "scored", "lora_r"}), common_flags({"fp32"}));
  prepare_process(arguments);
  const auto source = open_source(arguments);
  const model::ModelConfig& config = source->config();
  const PassShape shape{.lengths = arguments.numbers("lengths", {256, 256, 256, 256}),
                        .scored = arguments.number("scored", 1020)};
  const Rates rates = probe(config, arguments.flag("quick"), arguments.flag("fp32"));
  const std::int64_t r = arguments.number("lora_r", 16);
  const base::Json out = {
      {"model", name_of(arguments)},
      {"layers", config.num_hidden_layers},
      {"threads", arguments.number("threads", 2)},
      {"rates", to_json(rates)},
      {"pass", to_json(pass_work(config, shape, r, false), rates.bf16_gflops)},
      {"pass_recompute_layer", to_json(pass_work(config, shape, r, true), rates.bf16_gflops)},
      {"decode_bytes", all_bytes(config, 2)},
      {"kv_bytes_per_token", kv_bytes_per_token(config, 2)}};
  print(rates, shape, out);
  write_json(arguments.text("json", ""), out);
  return 0;
}

}  // namespace

}  // namespace hone::bench

int main(int argc, char** argv) {
  return hone::bench::run_main(&hone::bench::run, argc, argv);
}
