// Umbrella header of layers/: modules, optimizers, schedules, data loading, training.
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adagrad.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/augment.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/checkpoint.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/conv1d.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/conv_transpose.hpp>
#include <tinytorch/layers/data_loader.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/embedding.hpp>
#include <tinytorch/layers/gradient_sum.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/instance_norm.hpp>
#include <tinytorch/layers/json_lines.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/lion.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/layers/module_dict.hpp>
#include <tinytorch/layers/module_list.hpp>
#include <tinytorch/layers/multihead_attention.hpp>
#include <tinytorch/layers/muon.hpp>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/prefetch.hpp>
#include <tinytorch/layers/progress.hpp>
#include <tinytorch/layers/recurrent.hpp>
#include <tinytorch/layers/recurrent_cell.hpp>
#include <tinytorch/layers/rmsprop.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/layers/state_dict.hpp>
#include <tinytorch/layers/trainable.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/layers/training_step.hpp>
#include <tinytorch/layers/upsample.hpp>
#include <tinytorch/layers/weight_average.hpp>
