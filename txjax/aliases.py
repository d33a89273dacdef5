"""Names that other libraries, papers and users have for fields of txjax, for near misses in messages."""

_NAMES = {
    "width": "d_model hidden_size n_embd n_embed embed_dim hidden_dim emb_dim model_dim dim d embedding_size",
    "depth": "n_layer n_layers num_layers num_hidden_layers layers blocks num_blocks nlayers",
    "heads": "n_head n_heads num_heads num_attention_heads nhead nheads attention_heads",
    "kv_heads": "n_kv_heads num_kv_heads num_key_value_heads n_head_kv",
    "head_size": "head_dim d_head d_kv dim_head",
    "vocab": "vocab_size n_vocab vocabulary vocabulary_size num_embeddings",
    "hidden": "d_ff intermediate_size ffn_dim n_inner mlp_dim dim_feedforward ffn_hidden_size",
    "ratio": "mlp_ratio ffn_ratio",
    "patch": "patch_size",
    "dropout": "dropout_rate drop_rate p_dropout hidden_dropout_prob resid_pdrop embd_pdrop",
    "drop_path": "drop_path_rate stochastic_depth",
    "use_bias": "bias",
    "classes": "num_classes n_classes num_labels",
    "peak_lr": "lr learning_rate max_lr base_lr rate step_size",
    "weight_decay": "wd decay l2",
    "warmup_steps": "warmup num_warmup_steps warmup_iters",
    "final": "min_lr end_lr final_lr eta_min lr_min",
    "clip": "grad_clip clip_norm max_grad_norm gradient_clip gradient_clip_val clip_grad_norm",
    "b1": "beta1 adam_beta1",
    "b2": "beta2 adam_beta2",
    "eps": "epsilon adam_epsilon layer_norm_eps norm_eps",
    "num_steps": "steps max_steps total_steps train_steps n_steps max_iters iterations num_train_steps",
    "num_epochs": "epochs max_epochs num_train_epochs n_epochs",
    "batch_size": "bs batch train_batch_size global_batch_size per_device_train_batch_size",
    "microbatches": "grad_accum accumulation_steps gradient_accumulation_steps accumulate_grad_batches",
    "length": "seq_len seq_length sequence_length max_len max_seq_len block_size context_length max_seq_length n_ctx",
    "max_length": "n_positions max_position_embeddings",
    "name": "dataset dataset_name",
    "data_dir": "data_path root data_root dataset_path",
    "data_workers": "num_workers workers dataloader_num_workers",
    "shape": "image_size img_size input_size resolution",
    "every_steps": "eval_every eval_interval eval_steps save_steps save_every save_interval checkpoint_every every",
    "keep": "keep_last save_total_limit max_to_keep",
    "log_every_steps": "log_every log_interval logging_steps log_steps",
    "init_from": "pretrained checkpoint_path resume_from load_from from_pretrained",
    "ema": "ema_decay use_ema",
    "dtype": "precision mixed_precision amp bf16 fp16 param_dtype",
    "remat": "gradient_checkpointing activation_checkpointing use_checkpoint",
    "label_smoothing": "smoothing label_smoothing_factor",
    "seed": "random_seed rng_seed",
}
# txjax's names of a field, by the name that others have.
ALIASES: dict[str, tuple[str, ...]] = {}
for _field, _others in _NAMES.items():
    for _name in _others.split():
        ALIASES[_name] = (*ALIASES.get(_name, ()), _field)
