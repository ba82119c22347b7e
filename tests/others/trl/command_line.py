"""accelerate launch command_line.py --model_name_or_path M --dataset_name D"""
from datasets import load_dataset
from trl import (ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser,
                 get_peft_config)

def main(script_args, training_args, model_args):
    dataset = load_dataset(script_args.dataset_name, name=script_args.dataset_config)
    trainer = SFTTrainer(
        model=model_args.model_name_or_path, args=training_args,
        train_dataset=dataset[script_args.dataset_train_split],
        peft_config=get_peft_config(model_args))
    trainer.train()

if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
    script_args, training_args, model_args = parser.parse_args_and_config()
    main(script_args, training_args, model_args)
