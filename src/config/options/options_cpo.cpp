// Rows: the losses of cpo and orpo (TRL's experimental CPOConfig and ORPOConfig), and SimPO's own names.
#include "config/option_table.h"

namespace hone::config {

std::vector<Option> cpo_options() {
  std::vector<Option> rows;
  add(rows, {"loss", kMethodConfig, "cpo"},
      {{"loss_type",
        "the loss, as TRL names it; alphapo is simpo with cpo_alpha 0, ipo and simpo average over tokens",
        &CpoPlan::loss_type, choice("sigmoid hinge ipo simpo alphapo")},
       {"beta", "temperature of the loss; ipo's tau", &CpoPlan::beta, above(0)},
       {"cpo_alpha", "weight of the NLL of the chosen completions", &CpoPlan::cpo_alpha,
        formerly("sft_weight")},
       {"simpo_gamma", "simpo: the reward margin that is aimed at", &CpoPlan::simpo_gamma,
        with("loss_type", "simpo")},
       {"alpha", "AlphaPO: rewards are (1 - p^-alpha) / alpha; 0: log p", &CpoPlan::alpha},
       {"label_smoothing", "sigmoid and simpo: share of labels that may be flipped",
        &CpoPlan::label_smoothing, fraction(), with("loss_type", "sigmoid, simpo")}});
  add(rows, {"loss", kMethodConfig, "orpo"},
      {{"beta", "weight of the log odds ratio beside the NLL (the paper's lambda)", &OrpoPlan::beta,
        above(0)},
       {"padding_value", "padding token", Kind::kInt, "null", ignored("hone never pads")}});
  add(rows, {"loss", kMethodConfig, "cpo, orpo"},
      {{"max_completion_length", "tokens of an encoder-decoder model's completion", Kind::kInt, "null",
        ignored("only read with encoder-decoder models; max_length bounds a prompt with its completion")},
       {"is_encoder_decoder", "the model has an encoder", Kind::kBool, "null",
        refused("hone has no encoder-decoder models")},
       {"generate_during_eval", "show completions of the evaluation's prompts in a tracker", Kind::kBool,
        "false", ignored("hone generate writes completions")}});
  add(rows, {"loss", kHone, "cpo"},
      {{"gamma_beta_ratio",
        "SimPO's own name: simpo_gamma / beta; sets loss_type simpo, and cpo_alpha 0 unless it is set",
        Kind::kFloat, "null", at_least(0)}});
  return rows;
}

}  // namespace hone::config
