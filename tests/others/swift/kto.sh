swift rlhf --rlhf_type kto --model nowhere/Qwen2.5-0.5B-Instruct --train_type lora \
  --dataset nowhere/kto-rows --max_length 1024 --per_device_train_batch_size 1 \
  --learning_rate 1e-5 --num_train_epochs 1 --lora_rank 4 --use_hf 1 --output_dir output
