swift sft \
    --model nowhere/Qwen2.5-7B-Instruct \
    --train_type lora \
    --dataset nowhere/rows \
    --learning_rate 1e-4 \ 
    --gradient_accumulation_steps 16 \
    --max_length 2048 \
    --lora_rank 64
