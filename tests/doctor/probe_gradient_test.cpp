// Probes P1 and P2 on tiny runs: a healthy one, and one for every fault that they name.
#include "doctor/probes/gradient_reach.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <stdexcept>

#include "doctor/probes/probe_state.h"
#include "probe_runs.h"

namespace hone::doctor {
namespace probe_gradient_test {

using base::Level;

class GradientProbeTest : public ProbeTest {
 protected:
  // Verdicts of a run whose rehearsed gradients pass through `fault`.
  Verdicts with_gradient(const std::function<void(train::OpenedRun&, train::Rehearsal&)>& fault) {
    const auto run = open(sft("run"));
    train::OpenedRun& parts = *run;
    break_method(parts, [&parts, fault](const train::RehearsalRequest& request, train::Rehearsal& out) {
      if (request.backward) fault(parts, out);
    });
    return probe_gradient(parts);
  }
  static void put(ops::Linear& linear, const std::function<void(at::Tensor&)>& change) {
    const bool packed = linear.weight.is_packed();
    at::Tensor weight = linear.weight.dense().clone();
    change(weight);
    linear.weight = packed ? ops::Weight::packed_where_possible(weight) : ops::Weight(weight);
  }
  static at::Tensor gradient_of(train::OpenedRun& run, const std::string& part) {
    for (const auto& tensor : run.adapter->tensors()) {
      if (tensor.name.find(part) != std::string::npos) return tensor.value.grad();
    }
    throw std::runtime_error("no tensor " + part);
  }
};

TEST_F(GradientProbeTest, AHealthyRunReachesEveryTensor) {
  for (const std::string bf16 : {"false", "true"}) {
    const auto run = open(sft("run" + bf16, {"--bf16", bf16, "--lora_target_modules", "all-linear"}));
    const Verdicts found = probe_gradient(*run);
    EXPECT_EQ(worst(found), Level::kOk) << describe(found);
    EXPECT_VERDICT(found, "GRAD-01", Level::kOk, "28 of 28");
    EXPECT_VERDICT(found, "GRAD-01", Level::kOk, "lora_B 14 of 14 in step 1");
    EXPECT_VERDICT(found, "GRAD-04", Level::kOk, "14 targets");
    EXPECT_VERDICT(found, "GRAD-05", Level::kOk, "28 of 28");
    EXPECT_VERDICT(found, "NUM-01", Level::kOk, "100 %");
    EXPECT_VERDICT(found, "NUM-06", Level::kOk, "bit-identical");
  }
}

TEST_F(GradientProbeTest, AHealthyGrpoRunInEachForm) {
  for (const Words& more :
       {Words{"--bf16", "false"}, Words{"--bf16", "true"}, Words{"--layer_form", "plain"}}) {
    const auto run = open(grpo("run" + more.front() + more.back(), more));
    const Verdicts found = probe_gradient(*run);
    EXPECT_LE(worst(found), Level::kNote) << describe(found);
    EXPECT_VERDICT(found, "GRAD-01", Level::kOk, "8 of 8");
  }
}

TEST_F(GradientProbeTest, RowsOfTheEmbeddingLearnToo) {
  for (const bool samples : {false, true}) {
    const Words tokens = {"--trainable_token_indices", "224", "25"};
    const auto run = open(samples ? grpo("grpo", tokens) : sft("sft", tokens));
    const Verdicts found = probe_gradient(*run);
    EXPECT_LE(worst(found), Level::kNote) << describe(found);
    EXPECT_VERDICT(found, "GRAD-01", Level::kOk, "9 of 9");
    EXPECT_VERDICT(found, "GRAD-04", Level::kOk, "rows of the embedding");
    EXPECT_VERDICT(found, "GRAD-05", Level::kOk, "9 of 9");
    EXPECT_VERDICT(found, "NUM-06", Level::kOk, "bit-identical");
  }
}

TEST_F(GradientProbeTest, AHealthyDpoRun) {
  const auto run = open(dpo("run"));
  const Verdicts found = probe_gradient(*run);
  EXPECT_LE(worst(found), Level::kNote) << describe(found);
  EXPECT_VERDICT(found, "GRAD-01", Level::kOk, "8 of 8");
}

// Load, quantize, attach, freeze have one owner: the adapter is whole, and no code of the base changes.
TEST_F(GradientProbeTest, AnAdapterOnAQuantizedBase) {
  const Words nested = {"--load_in_4bit", "true", "--use_bnb_nested_quant", "true"};
  const Words targets = {"--lora_target_modules", "all-linear"};
  const auto with = [&](Words words) {
    words.insert(words.end(), targets.begin(), targets.end());
    return words;
  };
  Words bf16 = with(nested);
  bf16.insert(bf16.end(), {"--dtype", "bfloat16"});
  const std::vector<config::Plan> plans = {sft("sft", with(nested)), sft("bf16", bf16), grpo("grpo", bf16),
                                           sft("8", with({"--load_in_8bit", "true"}))};
  for (const config::Plan& plan : plans) {
    const auto run = open(plan);
    ASSERT_TRUE(run->model->quantized());
    const Verdicts found = probe_gradient(*run);
    EXPECT_LE(worst(found), Level::kNote) << describe(found);
    EXPECT_VERDICT(found, "GRAD-01", Level::kOk, "28 of 28");
    EXPECT_VERDICT(found, "GRAD-04", Level::kOk, "14 targets");
    EXPECT_VERDICT(found, "NUM-06", Level::kOk, "bit-identical");
  }
}

TEST_F(GradientProbeTest, ACodeThatChangesIsFound) {
  for (const bool samples : {false, true}) {
    const Words four = {"--load_in_4bit", "true", "--dtype", "bfloat16"};
    const auto run = open(samples ? grpo("grpo", four) : sft("sft", four));
    train::OpenedRun& parts = *run;
    break_method(parts, [&parts](const train::RehearsalRequest&, train::Rehearsal&) {
      at::Tensor codes = std::as_const(*parts.model).linears()[3]->weight.quantized().codes;
      codes[0] += 1;
    });
    EXPECT_VERDICT(probe_gradient(parts), "NUM-06", Level::kFail, "o_proj");
  }
}

TEST_F(GradientProbeTest, AContinuedAdapterIsExaminedCorrectly) {
  const auto run =
      open(sft("run", {"--adapter_name_or_path", (fixtures() / "tiny_llama" / "adapter").string()}));
  const Verdicts found = probe_gradient(*run);
  EXPECT_LE(worst(found), Level::kWarn) << describe(found);
  EXPECT_VERDICT(found, "GRAD-01", Level::kOk, "trainable tensors receive a gradient");
}

TEST_F(GradientProbeTest, LeavesTheRunAsItWasEvenWhenItThrows) {
  const auto run = open(sft("run"));
  run->adapter->flat_gradient().fill_(0.25);
  const at::Tensor parameters = run->adapter->flat().clone(),
                   gradient = run->adapter->flat_gradient().clone();
  probe_gradient(*run);
  EXPECT_TRUE(run->adapter->flat().equal(parameters));
  EXPECT_TRUE(run->adapter->flat_gradient().equal(gradient));
  int calls = 0;
  break_method(*run, [&calls](const train::RehearsalRequest&, train::Rehearsal&) {
    if (++calls == 2) throw std::runtime_error("in the second step");
  });
  EXPECT_THROW(probe_gradient(*run), std::runtime_error);
  EXPECT_TRUE(run->adapter->flat().equal(parameters));
  EXPECT_TRUE(run->adapter->flat_gradient().equal(gradient));
}

TEST_F(GradientProbeTest, NoGradientAtAll) {
  const Verdicts found =
      with_gradient([](train::OpenedRun& run, train::Rehearsal&) { run.adapter->zero_gradient(); });
  EXPECT_VERDICT(found, "GRAD-01", Level::kFail, "0 of 8 trainable tensors");
  EXPECT_VERDICT(found, "GRAD-01", Level::kFail, "layers 0-1 q_proj.lora_A, q_proj.lora_B");
}

TEST_F(GradientProbeTest, SomeTensorsWithoutAGradientAreNamedByLayer) {
  const Verdicts found = with_gradient([](train::OpenedRun& run, train::Rehearsal&) {
    gradient_of(run, "layers.1.self_attn.q_proj.lora_B").zero_();
    gradient_of(run, "layers.1.self_attn.q_proj.lora_A").zero_();
  });
  EXPECT_VERDICT(found, "GRAD-02", Level::kFail, "2 of 8 trainable tensors");
  EXPECT_VERDICT(found, "GRAD-02", Level::kFail, "layers 1 q_proj.lora_A, q_proj.lora_B");
}

TEST_F(GradientProbeTest, FrozenAdapters) {
  const auto run = open(sft("run"));
  for (const auto& tensor : run->adapter->tensors()) {
    at::Tensor value = tensor.value;
    value.set_requires_grad(false);
  }
  EXPECT_VERDICT(probe_gradient(*run), "GRAD-04", Level::kFail, "0 of 8 tensors are trainable");
}

TEST_F(GradientProbeTest, AParameterThatTheOptimizerDoesNotHold) {
  const auto run = open(sft("run"));
  at::Tensor value = run->adapter->tensors()[1].value;
  value.set_data(value.detach().clone());
  EXPECT_VERDICT(probe_gradient(*run), "GRAD-05", Level::kFail, "layers 0 q_proj.lora_B");
}

TEST_F(GradientProbeTest, AnOptimizerThatLeavesAPartOut) {
  const auto run = open(sft("run"));
  const OptimizerStep half = [](learn::Optimizer& optimizer, const at::Tensor& p, const at::Tensor& g,
                                double rate) {
    const at::Tensor last = p.narrow(0, p.numel() - 64, 64).clone();
    optimizer.step(p, g, rate);
    p.narrow(0, p.numel() - 64, 64).copy_(last);
  };
  EXPECT_VERDICT(examine_gradient(*run, half), "GRAD-08", Level::kFail, "layers 1 v_proj.lora_B");
}

TEST_F(GradientProbeTest, ANanInTheBaseIsNamedBeforeAnyPass) {
  for (const bool samples : {false, true}) {  // as a plain matrix, and as a pack
    const auto run = open(samples ? grpo("grpo") : sft("sft"));
    put(*run->model->linears()[8],
        [](at::Tensor& weight) { weight[3][5] = std::numeric_limits<float>::quiet_NaN(); });
    int passes = 0;
    break_method(*run, [&passes](const train::RehearsalRequest&, train::Rehearsal&) { ++passes; });
    const Verdicts found = probe_gradient(*run);
    EXPECT_VERDICT(found, "NUM-02", Level::kFail,
                   "model.layers.1.self_attn.k_proj.weight[3, 5] is nan (1 such value of 2,048)");
    EXPECT_EQ(passes, 0);
  }
}

TEST_F(GradientProbeTest, InfinityInANormAndInTheAdapter) {
  const auto run = open(sft("run"));
  {
    const at::NoGradGuard no_grad;
    at::Tensor value = run->adapter->tensors()[2].value;
    value[0][0] = std::numeric_limits<float>::infinity();
  }
  EXPECT_VERDICT(probe_gradient(*run), "NUM-02", Level::kFail, "layers.0.self_attn.v_proj.lora_A");
}

TEST_F(GradientProbeTest, AGradientThatIsNotFinite) {
  const Verdicts found = with_gradient([](train::OpenedRun& run, train::Rehearsal&) {
    gradient_of(run, "layers.1.self_attn.v_proj.lora_B")[0][0] = std::numeric_limits<float>::quiet_NaN();
  });
  EXPECT_VERDICT(found, "NUM-02", Level::kFail, "layers.1.self_attn.v_proj.lora_B");
  EXPECT_VERDICT(found, "NUM-02", Level::kFail, "the base alone gives a loss of");
}

TEST_F(GradientProbeTest, ARateThatIsRoundedAway) {
  const Verdicts found = probe_gradient(*open(sft("run", {"--learning_rate", "1e-12"})));
  EXPECT_VERDICT(found, "NUM-01", Level::kFail, "less than half a unit in the last place of fp32");
  EXPECT_VERDICT(found, "NUM-08", Level::kWarn, "a rate for full fine-tuning");
  EXPECT_NE(verdict_of(found, "GRAD-05").level, Level::kFail) << describe(found);
}

TEST_F(GradientProbeTest, RatesOutsideWhatIsUsual) {
  EXPECT_VERDICT(probe_gradient(*open(sft("high", {"--learning_rate", "0.3"}))), "NUM-08", Level::kWarn,
                 "too high");
  EXPECT_VERDICT(probe_gradient(*open(sft("zero", {"--learning_rate", "0"}))), "NUM-08", Level::kFail,
                 "is 0");
}

TEST_F(GradientProbeTest, AZeroLayerOfTheBaseIsToldAsItIs) {
  const auto shut = [](train::OpenedRun& run) {
    for (ops::Linear* linear : run.model->linears()) {
      if (linear->name == "model.layers.1.self_attn.o_proj")
        put(*linear, [](at::Tensor& weight) { weight.zero_(); });
    }
  };
  // Not adapted: what lies before it cannot learn.
  const auto some = open(sft("some"));
  shut(*some);
  EXPECT_VERDICT(probe_gradient(*some), "GRAD-02", Level::kWarn,
                 "model.layers.1.self_attn.o_proj of the base is all 0 and has no adapter");
  // Adapted: it opens with the first update.
  const auto all = open(sft("all", {"--lora_target_modules", "all-linear"}));
  shut(*all);
  EXPECT_VERDICT(probe_gradient(*all), "GRAD-02", Level::kNote, "28 of 28");
}

TEST_F(GradientProbeTest, AFrozenTensorThatChanges) {
  const auto run = open(sft("run"));
  ops::Linear* const linear = run->model->linears()[3];
  put(*linear, [](at::Tensor&) {});  // a copy of its own, not the mapped file
  break_method(*run, [linear](const train::RehearsalRequest&, train::Rehearsal&) {
    at::Tensor weight = linear->weight.plain();
    weight[0][1] += 1;
  });
  EXPECT_VERDICT(probe_gradient(*run), "NUM-06", Level::kFail, "model.layers.0.self_attn.o_proj");
}

TEST(TensorList, NamesLayersInRanges) {
  const auto key = [](int layer, const std::string& rest) {
    return "base_model.model.model.layers." + std::to_string(layer) + "." + rest + ".weight";
  };
  EXPECT_EQ(tensor_list({key(0, "mlp.up_proj.lora_A"), key(1, "mlp.up_proj.lora_A"),
                         key(3, "mlp.up_proj.lora_A"), key(2, "self_attn.q_proj.lora_B")}),
            "layers 0-1, 3 up_proj.lora_A; layers 2 q_proj.lora_B");
  EXPECT_EQ(grouped(1179648), "1,179,648");
  EXPECT_EQ(grouped(-100), "-100");
}

}  // namespace probe_gradient_test
}  // namespace hone::doctor
