"""What other libraries call the fields of a recipe and of a sweep, so that a name from elsewhere is answered with ours.

They are the names of transformers, sentence-transformers, SetFit, AutoGluon, Flair, Ludwig, axolotl, LLaMA-Factory,
Lightning, fastai, Optuna and Ray Tune, in lower case and with underscores. Our field is a dotted key, followed by a
value where the name implies one: `fp16` is `training.precision: fp16`. A field of ours in the wrong section needs no
row: it is looked up in the other sections.
"""

from __future__ import annotations

from collections.abc import Mapping


def _table(rows: Mapping[str, str]) -> dict[str, str]:
    """Names of other libraries by our field, turned into our field by name."""
    return {name: field for field, names in rows.items() for name in names.split()}


RECIPE = _table(
    {
        # The model and the task.
        "model": "base_model base_model_name model_name model_name_or_path model_id model_path backbone encoder "
        "checkpoint_name pretrained_model pretrained_model_name pretrained_model_name_or_path",
        "models": "encoders backbones candidates model_list",
        "from_scratch": "config_overrides model_config random_weights",
        "task": "task_name task_type problem_type",
        "task.class_weight": "class_weights class_weight pos_weight weight_classes",
        "task.multi_label": "multilabel multi_label is_multilabel is_multi_label multi_target_strategy",
        "task.threshold": "threshold multi_label_threshold",
        "task.threshold_metric": "threshold_metric optimal_threshold tune_threshold",
        "task.thresholds": "thresholds label_thresholds",
        # The data.
        "data": "dataset datasets dataset_name data_args input_features output_features",
        "data.train": "train train_file train_files train_data train_dataset train_path training_data data_files",
        "data.dev": "dev valid val validation validation_file validation_data val_file val_data dev_file eval_file "
        "eval_data eval_dataset tuning_data",
        "data.test": "test test_file test_files test_data test_dataset",
        "data.add": "add extra_train extra_data additional_data more_data",
        "data.columns": "column_mapping columns_mapping remap_columns",
        "data.columns.text": "text text_column text_column_name text_field",
        "data.columns.pair": "pair text_pair text_pair_column",
        "data.columns.label": "label label_column label_column_name label_name label_field target target_column",
        "data.format": "file_type file_format dataset_format ds_type delimiter sep",
        "data.prompt": "prompts prompt_name default_prompt default_prompt_name text_prefix query_instruction "
        "query_instruction_for_retrieval instruction",
        "data.label_separator": "label_delimiter label_sep",
        "data.split.test": "test_size test_split test_ratio",
        "data.split.dev": "val_set_size val_size validation_split validation_size dev_size eval_split holdout_frac",
        "data.split.seed": "split_seed",
        # The window.
        "window": "tokenization tokenizer_args tokenizer_kwargs",
        "window.max_tokens": "max_tokens max_seq_length max_seq_len max_length max_len max_sequence_length "
        "max_text_len model_max_length sequence_len sequence_length seq_length seq_len cutoff_len block_size",
        "window.method": "truncation truncate truncation_side truncation_strategy truncation_mode",
        "window.method: slices": "allow_long_sentences return_overflowing_tokens sliding_window",
        "window.overlap": "stride doc_stride window_stride chunk_overlap",
        "window.max_slices": "max_chunks num_chunks max_windows",
        "window.slice_pooling": "chunk_pooling window_pooling",
        # The layers.
        "layers.lr_decay": "layerwise_lr_decay layer_wise_lr_decay layerwise_learning_rate_decay lr_layerwise_decay "
        "layerwise_decay layer_decay llrd lr_choice lr_mult discriminative discriminative_lr "
        "discriminative_learning_rates discriminative_fine_tuning",
        "layers.freeze": "freeze_layers frozen_layers num_frozen_layers freeze_n_layers trainable fine_tune",
        "layers.freeze: 1": "freeze_embeddings",
        "layers.freeze: encoder": "freeze_encoder freeze_backbone freeze_base_model freeze_body",
        "layers.unfreeze": "unfreezing unfreeze_layers unfrozen_parameters",
        "layers.unfreeze: gradual": "gradual_unfreezing gradual_unfreeze",
        "layers.unfreeze: head-first": "lp_ft linear_probing freeze_epochs",
        "layers.unfreeze: chain-thaw": "chain_thaw",
        "layers.reinit_top": "reinit reinit_layers reinit_n_layers reinit_top_layers re_init_layers "
        "reinitialize_layers num_reinit_layers",
        "layers.lora": "adapter use_lora peft peft_config use_peft lora_config finetuning_type",
        "layers.lora.rank": "lora_r lora_rank",
        "layers.lora.alpha": "lora_alpha",
        "layers.lora.dropout": "lora_dropout",
        # The head.
        "head.type": "head_type model_head classifier classifier_type head_class",
        "head.layers": "layer_pooling output_layers hidden_layers",
        "head.layers: mean-all": "layer_mean",
        "head.pooling": "pooling_mode pooling_strategy pooling_type pool_type pooler_type reduce_output",
        "head.pooling: cls": "cls_pooling pooling_mode_cls_token",
        "head.pooling: mean": "mean_pooling pooling_mode_mean_tokens",
        "head.pooling: max": "max_pooling pooling_mode_max_tokens",
        "head.learning_rate": "head_learning_rate head_lr classifier_learning_rate classifier_lr decoder_lr",
        "head.init": "head_init",
        "head.reuse: false": "ignore_mismatched_sizes",
        # The training.
        "training": "train_args train_params training_args training_arguments trainer_args optimizer optimization "
        "optimizer_params hyperparameters hyperparams",
        "training.learning_rate": "learning_rate lr base_lr peak_lr max_lr initial_lr max_learning_rate "
        "body_learning_rate",
        "training.lr_schedule": "lr_scheduler lr_scheduler_type lr_policy lr_strategy scheduler schedule "
        "learning_rate_scheduler learning_rate_schedule",
        "training.warmup": "warmup_ratio warmup_steps warmup_proportion warmup_fraction warmup_epochs num_warmup_steps "
        "cut_frac",
        "training.epochs": "epoch num_epochs num_train_epochs max_epochs n_epochs train_epochs",
        "training.max_steps": "num_steps num_train_steps num_training_steps max_train_steps train_steps total_steps",
        "training.min_steps": "min_train_steps",
        "training.batch_size": "train_batch_size per_device_train_batch_size per_gpu_train_batch_size "
        "per_gpu_batch_size micro_batch_size mini_batch_size minibatch_size",
        "training.batch_tokens": "tokens_per_batch max_tokens_per_batch",
        "training.batching: by-length": "group_by_length train_sampling_strategy",
        "training.weight_decay": "wd l2 l2_weight regularization_lambda",
        "training.max_grad_norm": "max_norm max_gradient_norm gradient_clip_val gradient_clip_norm gradient_clipping "
        "grad_clip grad_clip_norm grad_norm_clip clip_grad_norm clip_norm clipnorm clip_grad",
        "training.adam_bias_correction": "correct_bias bias_correction",
        "training.label_smoothing": "label_smoothing_factor smoothing",
        "training.r_drop": "rdrop rdrop_alpha r_drop_alpha reg_alpha",
        "training.loss": "loss_fn loss_function loss_type criterion",
        "training.loss: supervised-contrastive": "supcon supcon_loss supervised_contrastive contrastive "
        "contrastive_loss scl",
        "training.average_last_epochs": "swa stochastic_weight_avg weight_averaging checkpoint_averaging "
        "average_checkpoints top_k_average top_k_average_method model_soup",
        "training.early_stopping_patience": "patience early_stopping early_stop early_stop_patience "
        "early_stopping_rounds load_best_model_at_end",
        "training.precision": "mixed_precision half_precision torch_dtype dtype amp use_amp",
        "training.precision: fp16": "fp16 float16",
        "training.precision: bf16": "bf16 bfloat16",
        "training.fsdp": "fsdp2 fsdp_config fsdp_version full_shard fully_shard zero3 zero_stage sharded_ddp",
        # Stages before the fine-tuning.
        "stages": "pretraining pretrain further_pretraining continued_pretraining dapt tapt multitask",
        # Checkpoints.
        "checkpoints.every_steps": "save_steps save_strategy save_every save_every_n_steps checkpoint_every "
        "checkpointing_steps steps_per_checkpoint",
        "checkpoints.every_minutes": "save_minutes minutes_per_checkpoint",
        "checkpoints.keep_last": "save_total_limit save_top_k max_checkpoints keep_checkpoints",
        # Seeds.
        "seed": "random_seed random_state manual_seed data_seed",
        "seeds": "num_seeds n_seeds num_runs n_repeats",
        "select: ensemble": "ensemble ensemble_size",
        "ablate": "ablation ablations",
        # What goes to `transformers.TrainingArguments` as it is.
        "trainer.gradient_accumulation_steps": "gradient_accumulation_steps gradient_accumulation "
        "accumulate_grad_batches grad_accumulation",
        "trainer.gradient_checkpointing": "gradient_checkpointing",
        "trainer.logging_steps": "logging_steps log_every log_every_n_steps",
        "trainer.report_to": "report_to loggers use_wandb use_tensorboard wandb_project",
        "trainer.dataloader_num_workers": "dataloader_num_workers num_workers",
        "trainer.optim": "optim optimizer_name optimizer_type optim_type",
        "trainer.adam_beta1": "adam_beta1",
        "trainer.adam_beta2": "adam_beta2",
        "trainer.adam_epsilon": "adam_epsilon adam_eps",
        "trainer.torch_compile": "torch_compile",
    }
)
"""Our field of a recipe, by its name elsewhere."""

ELSEWHERE = {
    "output_dir": "give the folder as --out, in Python as fit(out=…)",
    "output_folder": "give the folder as --out, in Python as fit(out=…)",
    "overwrite_output_dir": "give another folder as --out, or remove the old one",
    "resume_from_checkpoint": "the same command on the same folder resumes",
    "resume": "the same command on the same folder resumes",
    "deepspeed": "DeepSpeed is not used here: set training.fsdp: true, which shards as its ZeRO stage 3 does",
    "deepspeed_config": "DeepSpeed is not used here: set training.fsdp: true, which shards as its ZeRO stage 3 does",
    "do_train": "fit always trains, then evaluates on the dev and test rows",
    "do_eval": "fit always trains, then evaluates on the dev and test rows",
    "eval_strategy": "the finished model is evaluated, with training.early_stopping_patience each epoch",
    "evaluation_strategy": "the finished model is evaluated, with training.early_stopping_patience each epoch",
}
"""What no field of a recipe holds, and what to do instead."""

SWEEP = _table(
    {
        "recipe": "base base_recipe program",
        "search": "search_space hp_space param_space parameters params space",
        "trials": "n_trials num_trials max_trials num_samples run_cap count",
        "sampler": "search_alg search_algorithm searcher algorithm method",
        "pruner": "pruning scheduler early_terminate",
        "metric": "metric_for_best_model objective monitor target",
        "direction": "goal mode greater_is_better",
        "seed": "random_seed random_state",
        "timeout": "budget time_budget time_budget_s time_limit max_time",
    }
)
"""Our field of a sweep, by its name elsewhere."""

RANGE = _table(
    {
        "low": "min lower lower_bound start",
        "high": "max upper upper_bound stop end",
        "log": "log_uniform loguniform distribution",
    }
)
"""Our field of a range of a sweep, by its name elsewhere."""
