source ./common.sh
DATASETS=(
    "nowhere/one#100"
    "nowhere/two"
)
swift sft \
    --model $1 \
    --train_type lora \
    --dataset "${DATASETS[@]}" \
    --output_dir "output/$(date +%m%d)" \
    --max_length 1024 \
    --per_device_train_batch_size 2 \
    --learning_rate ${LR:-2e-4} \
    --num_train_epochs 2
