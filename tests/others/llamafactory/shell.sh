#!/bin/bash
MODEL=nowhere/Qwen2.5-7B-Instruct
LR=${LR:-5e-5}
export WANDB_DISABLED=true
CUDA_VISIBLE_DEVICES=0 llamafactory-cli train \
    --stage sft \
    --do_train True \
    --model_name_or_path $MODEL \
    --dataset alpaca_own \
    --dataset_dir data \
    --template qwen \
    --finetuning_type lora \
    --lora_target q_proj,v_proj \
    --output_dir saves/shell \
    --cutoff_len 1024 \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 4 \
    --lr_scheduler_type cosine \
    --learning_rate $LR \
    --num_train_epochs 3.0 \
    --warmup_steps 0 \
    --plot_loss \
    --bf16 True
