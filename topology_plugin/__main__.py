from topology_plugin.cli.hook import main

main()
