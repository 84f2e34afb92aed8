from topology_plugin.cli.main import main

main()
