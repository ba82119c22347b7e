PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' \
NPROC_PER_NODE=2 \
megatron sft \
    --load Qwen2.5-7B-mcore \
    --dataset nowhere/alpaca \
    --tensor_model_parallel_size 2 \
    --micro_batch_size 4 \
    --global_batch_size 16 \
    --lr 1e-5 \
    --train_iters 500 \
    --save out
