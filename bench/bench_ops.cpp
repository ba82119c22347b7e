// Each operator of src/ops beside the limit of the machine, as a Markdown table on stdout.
//
// usage: bench_ops [--model FOLDER | --shapes q05b] [--only TEXT] [--tokens 1024] [--length 256]
//                  [--threads 2]
//                  [--instructions avx512_bf16] [--milliseconds 150] [--warm] [--json FILE] [--quick]
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "bench/measure.h"
#include "bench/open.h"
#include "bench/ops_cases.h"
#include "bench/probe.h"

namespace hone::bench {

// One stretch of normal numbers, repeated: a head's worth of fresh ones takes a second.
at::Tensor random_bf16(const std::vector<std::int64_t>& sizes) {
  constexpr std::int64_t kStretch = (1 << 20) + 7;
  static const at::Tensor stretch = at::randn({kStretch}).mul_(0.1).to(at::kBFloat16);
  at::Tensor out = at::empty(sizes, at::kBFloat16);
  const at::Tensor flat = out.view(-1);
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kStretch) {
    const std::int64_t size = std::min(kStretch, flat.numel() - begin);
    flat.narrow(0, begin, size).copy_(stretch.narrow(0, 0, size));
  }
  return out;
}

namespace {

struct Measured {
  std::string name;
  Case what;  // without its functions
  Timing timing;
};

// `cold`: what the operator reads comes from memory, as it does after a layer's other matrices have passed
// by.
Measured measure_entry(const Entry& entry, const Effort& effort, bool cold) {
  Case made = entry.make();
  const auto prepare = [&] {
    if (made.prepare) made.prepare();
    if (cold) flush_caches();
  };
  const Timing timing = measure(made.run, effort, prepare);
  return {.name = entry.name, .what = {.flop = made.flop, .bytes = made.bytes}, .timing = timing};
}

double limit_seconds(const Case& what, const Rates& rates) {
  return what.flop / rates.bf16_gflops / 1e9 + what.bytes / rates.read_gbs / 1e9;
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv, with_common({"only", "tokens", "length", "milliseconds"}),
                            common_flags({"warm"}));
  prepare_process(arguments);
  const at::NoGradGuard no_grad;
  const bool quick = arguments.flag("quick"), cold = !arguments.flag("warm");
  OpsShape shape{.config = open_source(arguments)->config(),
                 .tokens = arguments.number("tokens", quick ? 64 : 1024),
                 .length = arguments.number("length", quick ? 16 : 256)};
  std::vector<Entry> entries;
  for (const auto& group : {product_entries, attention_entries, fused_entries, head_entries}) {
    for (const Entry& entry : group(shape)) {
      if (entry.name.find(arguments.text("only", "")) != std::string::npos) entries.push_back(entry);
    }
  }
  if (entries.empty()) {
    throw base::UserError(
        {.where = "--only", .expected = "a part of an operator's name", .found = arguments.text("only", "")});
  }
  const Effort effort =
      quick ? Effort{.seconds = 0.001, .at_least = 1, .at_most = 1}
            : Effort{.seconds = 0.001 * static_cast<double>(arguments.number("milliseconds", 150)),
                     .at_least = 2};

  const Rates before = probe(shape.config, quick);
  std::vector<Measured> all;
  for (const Entry& entry : entries) {
    std::cerr << "\r\x1b[K" << entry.name << std::flush;
    all.push_back(measure_entry(entry, effort, cold));
  }
  std::cerr << "\r\x1b[K" << std::flush;
  const Rates rates = better_of(before, probe(shape.config, quick));

  std::cout << name_of(arguments) << ", " << shape.tokens << " tokens in rows of " << shape.length
            << ", bf16, " << (cold ? "caches emptied before each call" : "caches warm") << "; "
            << sentence(rates) << ".\n\n";
  Table table({"operator", "best ms", "median ms", "GFLOP/s", "GB/s", "limit ms", "share"});
  base::Json json = {{"rates", to_json(rates)}, {"operators", base::Json::array()}};
  for (const Measured& m : all) {
    const double limit = limit_seconds(m.what, rates);
    const auto rate = [&](double amount) {
      return amount > 0 ? fixed(amount / m.timing.best / 1e9, 1) : std::string();
    };
    table.add({m.name, fixed(1e3 * m.timing.best, 3), fixed(1e3 * m.timing.median, 3), rate(m.what.flop),
               rate(m.what.bytes), fixed(1e3 * limit, 3), percent(limit / m.timing.best)});
    json["operators"].push_back({{"name", m.name},
                                 {"best_s", m.timing.best},
                                 {"median_s", m.timing.median},
                                 {"repetitions", m.timing.repetitions},
                                 {"flop", m.what.flop},
                                 {"bytes", m.what.bytes},
                                 {"limit_s", limit}});
  }
  table.print();
  write_json(arguments.text("json", ""), json);
  return 0;
}

}  // namespace

}  // namespace hone::bench

int main(int argc, char** argv) {
  return hone::bench::run_main(&hone::bench::run, argc, argv);
}
