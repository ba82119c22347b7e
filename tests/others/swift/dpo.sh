MODEL=${MODEL:-nowhere/Llama-3.2-1B-Instruct}
DATA="pairs.jsonl"
swift rlhf \
    --rlhf_type dpo \
    --model "$MODEL" \
    --train_type lora \
    --dataset "${DATA}" \
    --split_dataset_ratio 0.1 \
    --beta 0.2 \
    --rpo_alpha 0.1 \
    --max_length 1024 \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --learning_rate 5e-6 \
    --num_train_epochs 1 \
    --eval_steps 50 \
    --output_dir output
