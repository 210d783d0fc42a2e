"""Write a checkpoint with TensorFlow itself; runs in an environment that has it, and imports nothing else of ours.

    python write_tensorflow.py TENSORS.npz PREFIX SHARDS

The tensors are written under their names; with several shards, the names are divided between as many data files. With
one, it is the `Saver` that Google's BERT was saved with.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf


def save_one(arrays: dict[str, np.ndarray], prefix: str) -> None:
    """One data file, by a session and a `Saver`."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, array in arrays.items():
            shape, dtype = array.shape, array.dtype
            variable = tf.compat.v1.get_variable(name, shape=shape, dtype=dtype, initializer=tf.zeros_initializer())
            place = tf.compat.v1.placeholder(dtype, shape)
            session.run(variable.initializer)
            session.run(tf.compat.v1.assign(variable, place), {place: array})
        tf.compat.v1.train.Saver().save(session, prefix, write_meta_graph=False)


def save_shards(arrays: dict[str, np.ndarray], prefix: str, shards: int) -> None:
    """Several data files, by the operations that a sharded `Saver` consists of."""
    parts = []
    for number in range(shards):
        names = sorted(arrays)[number::shards]
        parts.append(f"{prefix}_temp/part-{number:05d}-of-{shards:05d}")
        tf.raw_ops.SaveV2(
            prefix=parts[-1],
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(arrays[name]) for name in names],
        )
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix, delete_old_dirs=True)


if __name__ == "__main__":
    file, prefix, shards = sys.argv[1:]
    with np.load(file) as opened:
        arrays = {name: opened[name] for name in opened.files}
    if int(shards) == 1:
        save_one(arrays, prefix)
    else:
        save_shards(arrays, prefix, int(shards))
    print(tf.__version__)
