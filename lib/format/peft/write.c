/* write.c - see write.h. The folder has the files of peft's save_pretrained (peft utils/constants.py):
 *
 *    adapter_model.safetensors   the tensors
 *    adapter_config.json         rank, scale, names of modules; written last
 */
#include "format/peft/write.h"

#include "format/files/output_folder.h"
#include "format/registry.h"

static const char tensors_name[] = "adapter_model.safetensors", config_name[] = "adapter_config.json";

/* is_other_file - see struct output_folder_kind; peft writes README.md, too. */
static bool is_other_file(ckpt_str name)
{
    return !str_is(name, ".") && !str_is(name, "..") && !str_is(name, tensors_name) &&
           !str_is(name, config_name) && !str_is(name, "README.md");
}

static const struct output_folder_kind adapter_folder = {"a LoRA adapter", is_other_file};

static ckpt_status write_files(const struct peft_adapter *adapter, const struct write_job *job,
                               const struct output_folder *folder, ckpt_error *err)
{
    struct plan_report *report = &adapter->p->report;
    const size_t noutputs = report->noutputs;
    struct write_job file_job = *job;
    if (!job->opts->dry_run)
        file_job.path = output_folder_path(folder, tensors_name);
    CKPT_TRY(file_job.path ? format_safetensors.write(adapter->p, &file_job, err) : fail_memory(err));
    CKPT_TRY(output_folder_write_file(folder, config_name, adapter->config, err));
    CKPT_TRY(file_check_unchanged(adapter->from, err));
    job->result->bytes += adapter->config.len;
    report->noutputs = noutputs;
    CKPT_TRY(output_folder_note_output(folder, tensors_name, err));
    return output_folder_note_output(folder, config_name, err);
}

ckpt_status peft_write(const struct peft_adapter *adapter, const struct write_job *job, ckpt_error *err)
{
    struct output_folder folder;
    CKPT_TRY(output_folder_prepare(&folder, &adapter_folder, adapter->p, job, err));
    if (!job->opts->dry_run)
        CKPT_TRY(output_folder_begin(&folder, err));
    return output_folder_end(&folder, write_files(adapter, job, &folder, err), err);
}
