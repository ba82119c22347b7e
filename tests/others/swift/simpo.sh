#!/usr/bin/env bash
set -e
args="--torch_dtype bfloat16 --max_length 2048"
python swift/cli/rlhf.py --rlhf_type simpo --model nowhere/Qwen2.5-3B-Instruct \
    --train_type lora --dataset nowhere/pairs $args \
    --per_device_train_batch_size 2 --learning_rate 1e-5 --num_train_epochs 1 \
    --lora_rank 16 --lora_alpha 16 --target_modules q_proj k_proj v_proj \
    --freeze_vit true --output_dir output
