--[[
Defaults for jobs that do not say how near their nodes should lie. Part of hyperpod-topology; not installed by itself.

slurm.conf: JobSubmitPlugins=lua. This file, job_submit_policy.lua (what the operator chose) and topology.yaml lie in
one directory. It runs inside slurmctld, so:
  - what a user asked for is never changed, and a job with anything that narrows its nodes is left alone;
  - a job is never refused here, and gets nothing with which Slurm would refuse it: sizes are checked against the
    topology.yaml of this moment; whatever cannot be read or understood means that nothing is done;
  - an error of ours is logged and forgotten.
Lua 5.1 to 5.4.
--]]

local HERE = (debug.getinfo(1, "S").source or ""):match("^@(.*/)") or "/etc/slurm/"
local POLICY, TOPOLOGY = HERE .. "job_submit_policy.lua", HERE .. "topology.yaml"

-- "Not set" in Slurm's fields of 64, 32, 16 and 8 bits, and "infinite".
local UNSET = { [0] = true, [4294967294] = true, [4294967295] = true, [65534] = true, [65535] = true, [254] = true,
                [255] = true }

local function said(value)
    if value == nil or value == "" then return false end
    if type(value) == "number" then return not UNSET[value] and value < 18446744073709000000 end
    return true
end

local function read(path)
    local file = io.open(path, "r")
    if not file then return nil end
    local text = file:read("*a")
    file:close()
    return text
end

-- Policy: a Lua table, run without access to anything.

local policy_text, policy

local function load_policy()
    local text = read(POLICY)
    if text == policy_text then return policy end
    policy_text, policy = text, nil
    if not text then return nil end
    local chunk, problem
    if setfenv then
        chunk, problem = loadstring(text, "=job_submit_policy.lua")
        if chunk then setfenv(chunk, {}) end
    else
        chunk, problem = load(text, "=job_submit_policy.lua", "t", {})
    end
    -- slurmctld waits for us: a policy that does not end is stopped
    debug.sethook(function() error("takes too long") end, "", 10000000)
    local fine, made = pcall(chunk or error, problem)
    debug.sethook()
    if fine and type(made) == "table" then
        policy = made
    else
        slurm.log_error("hyperpod-topology: policy not used: %s", tostring(made))
    end
    return policy
end

-- Node lists: `ip-10-1-1-[11-14],login`. An error for whatever is not plain; the caller then does nothing.

local function numbers(group)
    local found = {}
    for piece in (group .. ","):gmatch("([^,]*),") do
        local low, high = piece:match("^(%d+)%-(%d+)$")
        low = low or piece:match("^(%d+)$")
        high = high or low
        if not low or #low > 15 or tonumber(high) - tonumber(low) > 65536 then error("range " .. piece) end
        for number = tonumber(low), tonumber(high) do
            found[#found + 1] = string.format("%0" .. #low .. "d", number)
        end
    end
    return found
end

local function expand(list)
    local names = {}
    local rest = list
    while rest ~= "" do
        local prefix, group, after = rest:match("^([^%[%],%s]*)%[([%d,%-]+)%](.*)$")
        local plain, more = rest:match("^([^%[%],%s]+)(.*)$")
        if prefix then
            for _, number in ipairs(numbers(group)) do names[#names + 1] = prefix .. number end
            rest = after
        elseif plain then
            names[#names + 1] = plain
            rest = more
        else
            error("node list " .. rest)
        end
        if rest ~= "" then
            if rest:sub(1, 1) ~= "," or #rest == 1 then error("node list " .. rest) end
            rest = rest:sub(2)
        end
    end
    return names
end

-- topology.yaml, as hyperpod-topology writes it; any other line makes its topology unknown.

local topology_text, topologies, counted

local function plain(text)
    local quoted = text:match('^"([^"\\]*)"$')
    if quoted then return quoted end
    if text:find('["\'\\{}#&*!|>%%@`]') then error("scalar " .. text) end
    return text
end

local function parse(text)
    local found, current, domain = {}, nil, nil
    for line in (text .. "\n"):gmatch("(.-)\r?\n") do
        local key, value = line:match("^%s*%-?%s*([%a_]+):%s*(.-)%s*$")
        local size = line:match("^%s+%-%s+(%d+)%s*$")
        if line:match("^%s*$") or line:match("^%s*#") or line:match("^%-%-%-") then
            key = nil
        elseif key == "topology" and line:match("^%- ") then
            current = { domains = {}, sizes = {} }
            found[plain(value)] = current
            domain = nil
        elseif current == nil then
            error("line " .. line)
        elseif size then
            current.sizes[#current.sizes + 1] = tonumber(size)
        elseif key == "switch" or key == "block" and value ~= "" then
            current.kind = key == "switch" and "tree" or "block"
            domain = { nodes = "" }
            current.domains[#current.domains + 1] = domain
        elseif key == "nodes" and domain then
            domain.nodes = plain(value)
        elseif key == "block_sizes" and value ~= "" then
            for number in (value:match("^%[([%d,%s]+)%]$") or error("sizes")):gmatch("%d+") do
                current.sizes[#current.sizes + 1] = tonumber(number)
            end
        elseif not ({ cluster_default = 1, flat = 1, tree = 1, block = 1, switches = 1, blocks = 1, block_sizes = 1,
                      children = 1 })[key or ""] then
            error("line " .. line)
        end
    end
    return found
end

-- How many nodes of the partition each leaf or block has. `listed`: the partition's Nodes= line.

local function domains_of(name, listed)
    local text = read(TOPOLOGY)
    if text ~= topology_text then
        topology_text, topologies, counted = text, nil, {}
        local fine, found = pcall(parse, text or "")
        if fine then topologies = found end
    end
    local topology = topologies and topologies[name]
    if not topology or not topology.kind or not listed or listed == "" then return nil end
    local key = name .. "\n" .. listed
    if counted[key] == nil then
        counted[key] = false
        local fine, counts = pcall(function()
            local members
            if listed:upper() ~= "ALL" then
                members = {}
                for _, node in ipairs(expand(listed)) do members[node] = true end
            end
            local numbers_in = {}
            for i, domain in ipairs(topology.domains) do
                local count = 0
                for _, node in ipairs(expand(domain.nodes)) do
                    if not members or members[node] then count = count + 1 end
                end
                numbers_in[i] = count
            end
            return numbers_in
        end)
        if fine then counted[key] = counts end
    end
    if not counted[key] then return nil end
    return { kind = topology.kind, base = topology.sizes[1], counts = counted[key] }
end

-- The fewest of these domains that hold `size` nodes.

local function fewest(counts, size)
    local sorted = {}
    for i, count in ipairs(counts) do sorted[i] = count end
    table.sort(sorted, function(a, b) return a > b end)
    local used = 0
    for _, count in ipairs(sorted) do
        if size <= 0 then break end
        size, used = size - count, used + 1
    end
    return size <= 0 and used or nil
end

local function holds(counts, size, segment)
    local segments = 0
    for _, count in ipairs(counts) do segments = segments + math.floor(count / segment) end
    return size % segment == 0 and segments * segment >= size
end

-- What narrows a job's nodes, so that a default might make it impossible. `uniform`: all nodes of the partition have
-- the same CPUs, memory, GPUs and features, so that these fit all of them or none.

local NARROWS = { "req_nodes", "exc_nodes", "reservation", "burst_buffer", "clusters" }
local NARROWS_UNLESS_UNIFORM = {
    "features", "prefer", "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "min_mem_per_node",
    "min_mem_per_cpu", "pn_min_tmp_disk", "sockets_per_node", "cores_per_socket", "threads_per_core", "core_spec",
    "thread_spec", "cpus_per_tres", "mem_per_tres", "ntasks_per_tres",
}

local function narrowed(job, uniform)
    for _, field in ipairs(NARROWS) do
        if said(job[field]) then return true end
    end
    -- --prefer and lists like [a|b] choose among nodes even where all have the same features
    if uniform then return said(job.prefer) or said(job.features) and job.features:find("[%[|*]") ~= nil end
    for _, field in ipairs(NARROWS_UNLESS_UNIFORM) do
        if said(job[field]) then return true end
    end
    return (said(job.pn_min_cpus) and job.pn_min_cpus > 1) or (said(job.cpus_per_task) and job.cpus_per_task > 1)
end

local function one_size(job)
    local least, most = job.min_nodes, job.max_nodes
    if not said(least) or (said(most) and most ~= least) then return nil end
    return least
end

local function defaults(job, partition, rules)
    local mine = rules.partitions and rules.partitions[partition.name]
    local size = one_size(job)
    if not mine or not size or size < 2 then return nil end
    -- het jobs are several jobs; who sits before a terminal (srun, salloc, --immediate) must not wait for us
    if not said(job.script) or said(job.immediate) or (job.het_job_offset ~= nil and job.het_job_offset ~= 4294967294) then return nil end
    if said(job.req_switch) or said(job.segment_size) or narrowed(job, mine.uniform) then return nil end
    local here = domains_of(mine.topology, partition.nodes)
    if not here then return nil end
    -- a partition's own rules before those for all; false: none
    local tree, segments = mine.tree, mine.segments
    if tree == nil then tree = rules.tree end
    if segments == nil then segments = rules.segments end
    if here.kind == "tree" and tree and size >= (tree.min_nodes or 2) then
        local leaves = fewest(here.counts, size)
        if not leaves then return nil end
        local wait = tree.wait or 300
        return { req_switch = leaves, wait4switch = wait,
                 told = string.format("--switches=%d@%02d:%02d", leaves, math.floor(wait / 60), wait % 60) }
    elseif here.kind == "block" and here.base and size > here.base then  -- up to it Slurm gives one block anyway
        for _, rule in ipairs(segments or {}) do
            local segment = rule.segment
            if size >= (rule.min_nodes or 2) and size <= (rule.max_nodes or size) and segment <= here.base
                and holds(here.counts, size, segment) then
                return { segment_size = segment, told = "--segment=" .. segment }
            end
        end
    end
    return nil
end

-- Slurm takes a job that is beyond its partition's limits and lets it wait, but refuses it as soon as a second partition
-- can never run it (run: 26.05.5). So what is beyond the default's limits stays there alone.

local function within(job, partition, size)
    local function above(value, limit) return said(value) and said(limit) and value > limit end
    return partition.state_up == 3  -- UP
        and not above(size, partition.max_nodes) and not above(size, partition.total_nodes)
        and not above(job.max_nodes, partition.max_nodes)
        and not (said(partition.min_nodes) and size < partition.min_nodes)
        and not above(job.time_limit, partition.max_time) and not above(job.time_min, partition.max_time)
        and not above(job.num_tasks, partition.total_cpus) and not above(job.min_cpus, partition.total_cpus)
end

-- A partition for jobs that name none: the rule's first, the cluster's default behind it, so that whatever the default
-- would have accepted still is.

local function routed(job, partitions, rules)
    if said(job.partition) or not rules.routes or rules.enforces_all_limits then return nil end
    local default
    for name, partition in pairs(partitions) do
        if partition.flag_default == 1 then default = name end
    end
    if not default or said(job.prefer) or said(job.req_nodes) or said(job.reservation) then return nil end
    local asked = table.concat({ job.tres_per_node or "", job.tres_per_job or "", job.tres_per_task or "",
                                 job.tres_per_socket or "" }, ",")
    local size = said(job.min_nodes) and job.min_nodes or 1
    if not within(job, partitions[default], size) then return nil end
    for _, route in ipairs(rules.routes) do
        local fits = partitions[route.partition] ~= nil and default ~= route.partition
        fits = fits and size >= (route.min_nodes or 1) and size <= (route.max_nodes or size)
        fits = fits and (not route.gres or asked:find(route.gres, 1, true) ~= nil)
        fits = fits and (not route.features or (job.features or ""):find(route.features, 1, true) ~= nil)
        if fits then
            return { partition = route.partition .. "," .. default, told = "--partition=" .. route.partition .. "," .. default }
        end
    end
    return nil
end

local function decide(job, partitions)
    local rules = load_policy()
    if not rules then return nil end
    local found = routed(job, partitions, rules)
    if found then return found, rules end
    local name = job.partition
    if not said(name) then
        for other, partition in pairs(partitions) do
            if partition.flag_default == 1 then name = other end
        end
    end
    local partition = name and partitions[name]  -- several names are no key, so such jobs are left alone
    return partition and defaults(job, partition, rules), rules
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    local fine, found, rules = pcall(decide, job_desc, part_list)
    if not fine then
        slurm.log_error("hyperpod-topology: job_submit.lua: %s", tostring(found))
    elseif found then
        for field, value in pairs(found) do
            if field ~= "told" then job_desc[field] = value end
        end
        slurm.log_info("hyperpod-topology: job of uid %s gets %s", tostring(submit_uid), found.told)
        if rules.tell ~= false then slurm.log_user("%s (default of this cluster)", found.told) end
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
