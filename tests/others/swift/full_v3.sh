nproc_per_node=8
NPROC_PER_NODE=$nproc_per_node \
swift sft \
    --model nowhere/Qwen2.5-1.5B \
    --train_type full \
    --dataset train.jsonl \
    --val_dataset val.jsonl \
    --num_train_epochs 3 \
    --per_device_train_batch_size 4 \
    --learning_rate 1e-5 \
    --gradient_accumulation_steps $(expr 32 / $nproc_per_node) \
    --max_length 8192 \
    --truncation_strategy right \
    --packing true \
    --attn_impl flash_attn \
    --deepspeed zero3 \
    --eval_steps 100 \
    --output_dir output
