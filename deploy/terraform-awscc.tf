# An example for Terraform's awscc provider. It was never applied anywhere: no account was to be had for it. What was
# checked: every attribute is one of AWS::SageMaker::Cluster, from whose schema the provider is made.
# cloudformation.yaml beside this file is the form that a linter has read.

terraform {
  required_providers {
    awscc = {
      source  = "hashicorp/awscc"
      version = ">= 1.0"
    }
  }
}

variable "cluster_name" {
  type    = string
  default = "c1"
}

variable "lifecycle_scripts" {
  type        = string
  description = "Where dist/lifecycle_scripts was uploaded: s3://sagemaker-.../lifecycle_scripts"
}

variable "execution_role_arn" {
  type        = string
  description = "A role with AmazonSageMakerClusterInstanceRolePolicy and, for the optional sources, execution-role-policy.json"
}

variable "subnet_id" {
  type = string
}

variable "security_group_id" {
  type = string
}

variable "fsx_dns_name" {
  type = string
}

variable "fsx_mount_name" {
  type = string
}

variable "gb200_training_plan_arn" {
  type    = string
  default = null
}

locals {
  scripts = {
    source_s3_uri    = var.lifecycle_scripts
    on_init_complete = "on_init_complete.sh"
  }
  fsx = {
    fsx_lustre_config = {
      dns_name   = var.fsx_dns_name
      mount_name = var.fsx_mount_name
      mount_path = "/fsx"
    }
  }
}

resource "awscc_sagemaker_cluster" "this" {
  cluster_name           = var.cluster_name
  node_recovery          = "Automatic"
  node_provisioning_mode = "Continuous"

  orchestrator = {
    slurm = {
      slurm_config_strategy = "Merge"
    }
  }

  vpc_config = {
    subnets            = [var.subnet_id]
    security_group_ids = [var.security_group_id]
  }

  tags = [{
    key   = "hyperpod-topology"
    value = var.cluster_name
  }]

  instance_groups = [
    {
      instance_group_name      = "controller-machine"
      instance_type            = "ml.m5.4xlarge"
      instance_count           = 1
      execution_role           = var.execution_role_arn
      life_cycle_config        = local.scripts
      slurm_config             = { node_type = "Controller" }
      instance_storage_configs = [local.fsx]
    },
    {
      instance_group_name      = "login-group"
      instance_type            = "ml.m5.xlarge"
      instance_count           = 1
      execution_role           = var.execution_role_arn
      life_cycle_config        = local.scripts
      slurm_config             = { node_type = "Login" }
      instance_storage_configs = [local.fsx]
    },
    {
      instance_group_name      = "worker-p5"
      instance_type            = "ml.p5.48xlarge"
      instance_count           = 16
      execution_role           = var.execution_role_arn
      life_cycle_config        = local.scripts
      slurm_config             = { node_type = "Compute", partition_names = ["train"] }
      instance_storage_configs = [local.fsx]
    },
    {
      instance_group_name      = "worker-gb200"
      instance_type            = "ml.p6e-gb200.36xlarge"
      instance_count           = 18
      execution_role           = var.execution_role_arn
      training_plan_arn        = var.gb200_training_plan_arn
      life_cycle_config        = local.scripts
      slurm_config             = { node_type = "Compute", partition_names = ["gb200"] }
      instance_storage_configs = [local.fsx]
    },
  ]
}
