"""Pairs and marked answers: DPO, KTO, reward models, CPO and ORPO as the documentation writes them."""
from common import CHAT_PAIRS, FEW, MARKED, MODEL, PAIRS, data, habit, run_of, tokenizer_of

MARGINS = ("rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected")


def dpo_of(rows, folder="out", **options):
    from trl import DPOConfig, DPOTrainer
    return DPOTrainer(model=MODEL, args=DPOConfig(output_dir=folder, **{**FEW, **options}), train_dataset=data(rows))


@habit(fast=True)
def prompt_in_turns():
    """pairs of whole conversations: the prompt is what they share"""
    rows = [{"chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]} for row in CHAT_PAIRS]
    return run_of(dpo_of(rows), *MARGINS)


@habit(fast=True)
def weighted_losses():
    """several losses of DPO with weights, as mixed preference optimization has them"""
    return run_of(dpo_of(PAIRS, loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0]), *MARGINS)


@habit()
def other_losses():
    """loss_type of DPO: ipo, hinge, robust with label_smoothing, a norm by length"""
    return {name: run_of(dpo_of(PAIRS, name, loss_type=name, **({"label_smoothing": 0.1} if name == "robust" else {})))
            for name in ("ipo", "hinge", "robust", "sigmoid_norm")}


@habit()
def reference_model():
    """model and ref_model are both loaded by the script"""
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer
    model, reference = AutoModelForCausalLM.from_pretrained(MODEL), AutoModelForCausalLM.from_pretrained(MODEL)
    trainer = DPOTrainer(model=model, ref_model=reference, args=DPOConfig("out", **FEW, beta=0.3), processing_class=tokenizer_of(MODEL),
                         train_dataset=data(PAIRS))
    return {"kept": trainer.ref_model is reference or type(trainer.ref_model).__name__, **run_of(trainer, *MARGINS)}


@habit(fast=True)
def reference_before():
    """precompute_ref_log_probs=True, and an evaluation at the end"""
    from trl import DPOConfig, DPOTrainer
    args = DPOConfig("out", **FEW, precompute_ref_log_probs=True, eval_strategy="steps", eval_steps=3)
    return run_of(DPOTrainer(model=MODEL, args=args, train_dataset=data(PAIRS), eval_dataset=data(PAIRS[:4])), "eval_loss", "eval_rewards/margins")


@habit()
def kto():
    """KTOTrainer with the objects of a model and its tokenizer"""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import KTOConfig, KTOTrainer
    model, tokenizer = AutoModelForCausalLM.from_pretrained(MODEL), AutoTokenizer.from_pretrained(MODEL)
    trainer = KTOTrainer(model=model, args=KTOConfig(output_dir="out", **FEW), processing_class=tokenizer, train_dataset=data(MARKED))
    return run_of(trainer, "kl", "logps/chosen", "rewards/chosen")


@habit(fast=True)
def kto_of_pairs():
    """KTO of a data set of pairs, which becomes one of marked answers"""
    from trl import KTOConfig, KTOTrainer
    return run_of(KTOTrainer(model=MODEL, args=KTOConfig("out", **FEW, loss_type="apo_zero_unpaired"), train_dataset=data(PAIRS)), "logps/chosen")


@habit()
def reward_model():
    """RewardTrainer with the object of a model that has a head, centered rewards, and an evaluation"""
    from common import REWARD_MODEL
    from transformers import AutoModelForSequenceClassification
    from trl import RewardConfig, RewardTrainer
    model = AutoModelForSequenceClassification.from_pretrained(REWARD_MODEL, num_labels=1)
    args = RewardConfig("out", **FEW, center_rewards_coefficient=0.01, eval_strategy="steps", eval_steps=3)
    trainer = RewardTrainer(model=model, args=args, train_dataset=data(CHAT_PAIRS), eval_dataset=data(CHAT_PAIRS[:4]))
    return run_of(trainer, "accuracy", "margin", "eval_loss")


@habit()
def simpo():
    """CPOTrainer of trl.experimental.cpo, with SimPO's loss"""
    from transformers import AutoModelForCausalLM
    from trl.experimental.cpo import CPOConfig, CPOTrainer
    args = CPOConfig(output_dir="out", **FEW, loss_type="simpo", cpo_alpha=0.0, simpo_gamma=0.5)
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    return run_of(CPOTrainer(model=model, args=args, processing_class=tokenizer_of(MODEL), train_dataset=data(PAIRS)), "rewards/margins")


@habit()
def orpo():
    """ORPOTrainer of trl.experimental.orpo"""
    from transformers import AutoModelForCausalLM
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    trainer = ORPOTrainer(model=model, args=ORPOConfig(output_dir="out", **FEW), processing_class=tokenizer_of(MODEL), train_dataset=data(PAIRS))
    return run_of(trainer, "log_odds_ratio", "nll_loss")
