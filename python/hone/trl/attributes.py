"""What hone does with each public name of the objects that scripts meet around TRL's trainers.

A table for each kind of object: the trainer, its args, its state, the accelerator and the model. A row is APPLIED (it gives or does what it does
in TRL), NEUTRAL (it gives a value, or does nothing, where nothing is to be done in this process) or REFUSED (an error that says what to do
instead). tests/fixtures/python/attributes.json has the names that TRL and transformers have; a test finds those without a row.
"""
import collections
import difflib

from hone.errors import Refused, RefusedName

APPLIED, NEUTRAL, REFUSED = "applied", "neutral", "refused"
CALLED = object()
Row = collections.namedtuple("Row", "use why value", defaults=("", None))


def applied(names):
    return {name: Row(APPLIED) for name in names.split()}


def neutral(why, **values):
    return {name: Row(NEUTRAL, why, value) for name, value in values.items()}


def called(why, names):
    """Neutral methods: a call changes nothing, and returns the object."""
    return {name: Row(NEUTRAL, why, CALLED) for name in names.split()}


def refused(instead, names):
    return {name: Row(REFUSED, instead) for name in names.split()}


STEP = "the steps are the program's: choose loss_type and other options, or use a reward function or a callback"
OPTIMIZER = "set optim, optim_args, learning_rate and lr_scheduler_type in the config; state.log_history has the rate of each step"
BATCHES = "the program makes the batches: `hone check` shows what each row becomes, train_dataset has the rows"
AFTER = "after train() this works on a copy that transformers has loaded; the program trains its own"
SAVED = "save the model to a folder, change it there, and pass model=FOLDER to a trainer"
LAUNCHER = "the program is one process of its own; for several, start the script with torchrun or `hone launch`"

# ---- trainers

# Attributes that have the value of an option, by its name in args.
OPTIONS = {name: name for name in (
    "beta loss_type loss_weights label_smoothing f_divergence_type f_alpha_divergence_coef ld_alpha use_weighting desirable_weight "
    "undesirable_weight router_aux_loss_coef padding_free completion_only_loss chat_template_kwargs entropy_coef epsilon_high "
    "generation_kwargs importance_sampling_level log_completions log_multimodal log_unique_prompts mask_truncated_completions "
    "max_completion_length max_tool_calling_iterations min_p multi_objective_aggregation num_completions_to_print num_generations "
    "num_generations_eval num_iterations off_policy_mask_threshold pad_to_multiple_of repetition_penalty reward_weights scale_rewards "
    "shuffle_dataset temperature top_entropy_quantile top_k top_p use_adaptive_entropy use_transformers_continuous_batching use_vllm "
    "vllm_gpu_memory_utilization vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min "
    "vllm_importance_sampling_correction vllm_importance_sampling_mode vllm_mode vllm_tensor_parallel_size normalize_advantages "
    "reward_clip_range cpo_alpha simpo_gamma max_length generate_during_eval neftune_noise_alpha alpha vllm_model_impl").split()}
OPTIONS |= {"loss_types": "loss_type", "precompute_ref_logps": "precompute_ref_log_probs", "epsilon_low": "epsilon",
            "structured_outputs_regex": "vllm_structured_outputs_regex", "aux_loss_coef": "router_aux_loss_coef", "alpha": "alpha"}

# What TRL's trainers have with use_vllm only: hasattr() says False, as there without it.
ABSENT = ("llm", "vllm_client", "vllm_generation")

# Names that are TRL's own, and that scripts use all the same: hasattr() says False.
PRIVATE = ("_prepare_dataset", "_generate_and_score_completions", "_get_per_token_logps", "_get_per_token_logps_and_entropies", "_compute_loss",
           "_prepare_inputs", "_calculate_rewards", "_generate", "_get_train_sampler", "_entropy_bonus_enabled")

TRAINER = {
    **{name: Row(APPLIED) for name in OPTIONS},
    **applied("accelerator add_callback args callback_handler control create_model_card end eval_dataset evaluate get_learning_rates "
              "get_num_trainable_parameters get_total_train_batch_size hub_model_id is_in_train is_local_process_zero "
              "is_world_process_zero log_metrics metrics_format model model_wrapped num_examples pop_callback processing_class "
              "push_to_hub remove_callback reward_func_names reward_funcs save_metrics save_model save_state state tokenizer train "
              "train_dataset chat_template pad_token_id eos_token_ids padding_value aux_loss_enabled ref_model get_train_dataloader "
              "get_eval_dataloader get_test_dataloader reward_processing_classes compute_metrics rollout_func"),
    **neutral("the program divides its work itself", deepspeed=None, is_deepspeed_enabled=False, is_fsdp_enabled=False,
              is_fsdp_xla_enabled=False, is_fsdp_xla_v1_enabled=False, is_fsdp_xla_v2_enabled=False, is_model_parallel=False,
              is_distributed_loading_by_transformers=False, place_model_on_device=False),
    **neutral("it has no such part", label_smoother=None, hp_name=None, hp_search_backend=None, hp_space=None, model_init=None,
              compute_objective=None, objective=None, compute_loss_func=None, preprocess_logits_for_metrics=None,
              optimizer_cls_and_kwargs=None, gather_function=None, neftune_hook_handle=None, push_in_progress=None, commit_scheduler=None,
              tools=None, environments=None, environment_factories=None, continuous_batching_config=None,
              image_token=None, image_token_id=None, vision_start_token_id=None,
              vision_end_token_id=None, is_vision_model=False, is_encoder_decoder=False, decoder_start_token_id=None,
              use_dpo_data_collator=False, can_return_loss=True, label_names=["labels"], model_accepts_loss_kwargs=True,
              model_preparation_time=0.0),
    **neutral("it is noted in metrics.jsonl and state", current_flos=0.0, current_gradient_accumulation_steps=None),
    **refused(STEP, "autocast_smart_context_manager compute_loss compute_loss_context_manager evaluation_loop prediction_step training_step "
                    "get_batch_samples create_accelerator_and_postprocess get_cp_size get_sp_size get_tp_size "
                    "maybe_activation_offload_context compute_ref_log_probs calculate_KL get_gamma_weights get_high_entropy_mask "
                    "get_off_policy_mask build_tokenized_answer concatenated_forward concatenated_inputs cpo_loss get_batch_logps "
                    "get_batch_loss_metrics odds_ratio_loss store_metrics tokenize_row process_vision_row stats "
                    "set_initial_training_values loss_is_scaled_for_ga async_loop async_loop_ready_event async_loop_thread"),
    **refused(OPTIMIZER, "optimizer lr_scheduler create_optimizer create_optimizer_and_scheduler create_scheduler "
                         "get_decay_parameter_names get_optimizer_cls_and_kwargs get_optimizer_group"),
    **refused(BATCHES, "data_collator"),
    **refused("evaluate(eval_dataset=..., metric_key_prefix='test') gives the metrics; for logits use trainer.model after train()", "predict"),
    **refused("state.log_history has what is logged, and a callback's on_log gets it; a reward function has log_metric", "log"),
    **refused("push_to_hub() makes the repository", "init_hf_repo"),
    **refused("name the model: model='folder or name'", "call_model_init"),
    **refused("train() once for each value, each into an output_dir of its own; `hone lr-find` proposes a learning rate",
              "hyperparameter_search"),
    **refused("state has the tokens of the run: num_input_tokens_seen", "floating_point_ops store_flos"),
    **refused("trainer.model.generate(...) after train(); sampling options are in args, as generation_kwargs",
              "generation_config generate_from_model"),
    **{name: Row(REFUSED, "hone samples with the trainer's own weights; a rollout_func has hone.trl.generate_rollout_completions(trainer, prompts)")
       for name in ABSENT},
}

# ---- args: transformers.TrainingArguments beside its options

ARGUMENTS = {
    **applied("device n_gpu process_index local_process_index world_size parallel_mode should_save should_log train_batch_size "
              "eval_batch_size get_process_log_level get_warmup_steps main_process_first ddp_timeout_delta to_dict to_json_string "
              "to_sanitized_dict set_training set_evaluate set_testing set_save set_logging set_push_to_hub set_optimizer "
              "set_lr_scheduler set_dataloader"),
    **neutral("the program divides its work itself", place_model_on_device=False, framework="pt", distributed_state=None,
              deepspeed_plugin=None, fsdp_plugin_args=None, hf_deepspeed_config=None, xla_fsdp_config=None, mixed_precision=None),
    **neutral("torch 2.11 has it", default_optim="adamw_torch_fused", is_torch_greater_or_equal_than_2_8=True),
}

# ---- state

STATE = {
    **applied("epoch global_step max_steps logging_steps eval_steps save_steps train_batch_size num_train_epochs num_input_tokens_seen "
              "log_history best_metric best_global_step best_model_checkpoint is_local_process_zero is_world_process_zero load_from_json "
              "save_to_json compute_steps"),
    **neutral("it searches no hyperparameters", is_hyper_param_search=False, trial_name=None, trial_params=None),
    **neutral("operations are not counted", total_flos=0),
    **neutral("callbacks keep their own state", stateful_callbacks=None),
    **refused("train() fills it", "init_training_references"),
}

# ---- accelerator

ACCELERATOR = {
    **applied("device distributed_type process_index local_process_index num_processes is_main_process is_local_main_process "
              "is_last_process print wait_for_everyone unwrap_model main_process_first local_main_process_first on_main_process "
              "on_local_main_process on_process on_last_process on_local_process split_between_processes gather gather_for_metrics "
              "reduce pad_across_processes get_state_dict save save_model state mixed_precision gradient_accumulation_steps "
              "project_dir logging_dir end_training free_memory clear use_distributed multi_device"),
    **neutral("the program divides its work itself", deepspeed_plugin=None, parallelism_config=None, is_fsdp2=False, fp8_backend=None,
              is_composable_parallelism_enabled=False, sync_gradients=True, optimizer_step_was_skipped=False, even_batches=True,
              split_batches=False, dispatch_batches=None, non_blocking=False, use_seedable_sampler=False,
              use_stateful_dataloader=False, save_iteration=0, should_save_model=True, torch_device_mesh=None,
              data_parallel_rank=0, data_parallel_shard_rank=0, context_parallel_rank=0, pipeline_parallel_rank=0,
              tensor_parallel_rank=0, trackers=[], deepspeed_config=None, deepspeed_engine_wrapped=None, device_placement=False,
              dataloader_config=None, gradient_state=None, project_configuration=None, rng_types=None, log_with=[], step=0,
              step_scheduler_with_optimizer=False, flag_tensor=None),
    **neutral("it has its own kernels and numbers", ao_recipe_handler=None, autocast_handler=None, ddp_handler=None,
              delayed_fp8_autocast=False, fp8_enabled=False, fp8_recipe_handler=None, has_fp8_handler=False, has_lomo_optimizer=False,
              init_handler=None, msamp_recipe_handler=None, native_amp=False, profile_handler=None, scaler=None, scaler_handler=None,
              te_recipe_handler=None),
    **refused(STEP, "accumulate autocast backward clip_grad_norm_ clip_grad_value_ no_sync lomo_backward unscale_gradients "
                    "trigger_sync_in_backward maybe_context_parallel join_uneven_inputs check_trigger set_trigger profile "
                    "register_for_checkpointing register_load_state_pre_hook register_save_state_pre_hook "
                    "deepspeed_ulysses_dl_adapter"),
    **refused("the program prepares the model, the batches and the optimizer",
              "prepare prepare_model prepare_optimizer prepare_scheduler prepare_data_loader skip_first_batches verify_device_map"),
    **refused("set report_to and run_name in the config; state.log_history has what is logged", "log init_trackers get_tracker"),
    **refused("save_steps writes checkpoints; train(resume_from_checkpoint=True) continues from the newest", "save_state load_state"),
}

# ---- model: transformers' PreTrainedModel, PEFT's PeftModel, torch's Module. LOADED names work after train(), on a copy of the result.

LOADED = (
    "generate forward eval train to cuda cpu half float double bfloat16 parameters named_parameters buffers named_buffers modules "
    "named_modules children named_children state_dict get_parameter get_buffer get_submodule get_input_embeddings get_output_embeddings "
    "get_decoder get_encoder get_base_model get_memory_footprint get_layer_status get_model_status get_adapter_state_dict active_adapter "
    "active_adapters active_peft_config disable_adapter disable_adapters enable_adapters set_adapter compile dummy_inputs base_model "
    "base_model_torch_dtype modules_to_save model lm_head score transformer embed_tokens layers extra_repr "
    "prepare_inputs_for_generation get_parameter_or_buffer named_non_persistent_buffers can_generate main_input_name input_modalities "
    "loss_function get_compiled_call base_model_prefix config_class generation_config_class get_position_embeddings dequantize "
    "share_memory has_active_enabled_adapter set_attn_implementation all_tied_weights_keys loss_type vocab_size peft_type "
    "base_model_prepare_inputs_for_generation special_peft_forward_args transformer_backbone_name word_embeddings").split()

MODEL = {
    **{name: Row(APPLIED, AFTER) for name in LOADED},
    **applied("config generation_config name_or_path dtype device peft_config save_pretrained push_to_hub print_trainable_parameters "
              "get_nb_trainable_parameters num_parameters merge_and_unload merge_adapter unload add_model_tags model_tags"),
    **called("hone recomputes in the backward as its own option `recompute` says",
             "gradient_checkpointing_enable gradient_checkpointing_disable activation_checkpointing_enable activation_checkpointing_disable "
             "enable_input_require_grads disable_input_require_grads prepare_model_for_gradient_checkpointing"),
    **neutral("hone recomputes in the backward as its own option `recompute` says", is_gradient_checkpointing=False,
              is_activation_checkpointing=False, supports_gradient_checkpointing=True, gradient_checkpointing=False),
    **called("what is trained is the options' choice", "requires_grad_ zero_grad tie_weights set_requires_grad "
             "warn_if_padding_and_no_attention_mask"),
    **called("push_to_hub() and create_model_card() of the trainer write it", "create_or_update_model_card"),
    **neutral("the program holds the whole model", training=True, is_parallelizable=False, model_parallel=False, is_loaded_in_4bit=False,
              is_loaded_in_8bit=False, is_quantized=False, tp_size=None, fsdp_size=None, tp_plan=None, pp_plan=None, ep_plan=None,
              fsdp_plan=None, is_distributed_loading_by_transformers=False, supports_tp_plan=False, supports_pp_plan=False,
              supports_context_parallel=False, supports_lora_conversion=False, can_record_outputs=None,
              is_remote_code=False, is_custom_code=False, is_backend_compatible=True, should_save_on_this_rank=True, use_kernels=False,
              get_experts_implementation=None, dump_patches=False, kernel_config=None, call_super_init=False, T_destination=None),
    **refused(SAVED, "resize_token_embeddings resize_position_embeddings load_state_dict load_adapter delete_adapter enable_peft_hotswap "
                     "set_input_embeddings set_output_embeddings set_decoder set_encoder add_module apply register_buffer "
                     "register_module register_parameter set_submodule set_extra_state get_extra_state to_empty init_weights "
                     "initialize_weights post_init retrieve_modules_from_names register_for_auto_class set_experts_implementation "
                     "set_use_kernels mark_tied_weights_as_initialized get_expanded_tied_weights_keys"),
    **refused("pass peft_config to the trainer", "add_adapter"),
    **refused("the program's own layers run: a callback's on_log gets what is logged",
              "register_backward_hook register_forward_hook register_forward_pre_hook register_full_backward_hook "
              "register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook "
              "register_state_dict_post_hook register_state_dict_pre_hook"),
    **refused("load a folder with transformers: AutoModelForCausalLM.from_pretrained(FOLDER)",
              "from_pretrained get_init_context get_correct_attn_implementation get_correct_experts_implementation"),
    **refused(LAUNCHER, "barrier_after_gathered_checkpoint_save gather_sharded_state_dict_for_save init_parallel_plans "
                        "maybe_distribute_model prepare_distribute_model save_distributed_checkpoint"),
    **refused("hone trains LoRA", "get_prompt get_prompt_embedding_to_save prompt_encoder prompt_tokens"),
    **refused("the program computes on the processor", "ipu xpu mtia type"),
}


def near(name, names):
    found = difflib.get_close_matches(name, names, 1, 0.7)
    return f" Did you mean {found[0]!r}?" if found else ""


def refuse(name, where, row, kind=Refused):
    raise kind(f"{where}.{name}", "a part of the trainer that this process has", f"{name}, which is in the program that trains", row.why)


def missing(table, name, where):
    """The value of a name that the object does not have by itself: of its row, or the error that its row has."""
    if name in PRIVATE and table is TRAINER:
        refuse(name, where, Row(REFUSED, STEP), RefusedName)
    row = None if name.startswith("_") else table.get(name)
    if row is None:
        raise AttributeError(f"{where} has no attribute {name!r}." + near(name, table))
    if row.use == REFUSED:
        refuse(name, where, row, RefusedName if name in ABSENT else Refused)
    if row.use == APPLIED:
        raise AttributeError(f"{where} has no {name!r} yet")
    return row.value
